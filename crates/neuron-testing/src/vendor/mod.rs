//! The server that all vendors share, and the trait that emulates a vendor.
//!
//! A [`VendorServer`] stores the script, the accepted key, the existing models and the recorded requests. A [`Vendor`]
//! checks requests and encodes responses. This crate implements [`Vendor`] for Anthropic, OpenAI, Gemini, Bedrock and
//! Ollama. Implement the trait to emulate another vendor.

mod answer;
mod error;
mod plan;
mod rules;
mod server;

use neuron_types::{EmbeddingResponse, ProviderError};
use serde_json::Value;

pub use answer::{Answer, Call, ErrorReply};
pub(crate) use error::message;
pub use rules::Rules;
pub use server::{VendorServer, VendorServerBuilder};

use crate::RecordedRequest;

/// The error text if a request for a message takes a reply with embeddings from the script.
pub(crate) const WANTS_MESSAGE: &str =
    "the script's reply holds embeddings, and this request asks for a message";
/// The error text if a request for embeddings takes a reply with a message from the script.
pub(crate) const WANTS_EMBEDDINGS: &str =
    "the script's reply holds a message, and this request asks for embeddings";

/// A vendor that a [`VendorServer`] emulates. It checks requests and encodes responses.
///
/// The result of every method must depend only on its arguments. The server stores the script and the key, handles
/// connections, and breaks responses.
///
/// # Example: a vendor with a simple format
///
/// ```
/// use neuron_testing::vendor::{Answer, Call, ErrorReply, Rules, Vendor, VendorServer};
/// use neuron_testing::{RecordedRequest, Reply};
/// use neuron_types::ProviderError;
/// use serde_json::{Value, json};
///
/// #[derive(Debug, Default)]
/// struct Plain;
///
/// impl Vendor for Plain {
///     type Detail = ();
///     type Error = String;
///
///     fn check(&self, request: &RecordedRequest, rules: &Rules) -> Result<Call<()>, String> {
///         if !rules.accepts_key(request.header("x-key")) {
///             return Err("wrong key".into());
///         }
///         let body = request.json.as_ref().ok_or("no JSON")?;
///         Ok(Call::new(body["model"].as_str().unwrap_or_default(), body["stream"] == true, ()))
///     }
///
///     fn error(&self, error: &ProviderError) -> String {
///         error.to_string()
///     }
///
///     fn body(&self, answer: &Answer<'_, ()>) -> Result<Value, String> {
///         Ok(json!({"says": answer.response.message.text()}))
///     }
///
///     fn frames(&self, answer: &Answer<'_, ()>) -> Vec<Vec<u8>> {
///         let text = answer.response.message.text();
///         let words = text.split_inclusive(' ').map(|word| json!({"says": word}));
///         words.map(|line| answer.wire.json_line(&line)).collect()
///     }
///
///     fn error_reply(&self, error: &String, _request_id: &str) -> ErrorReply {
///         ErrorReply::new(400, json!({"error": error}))
///     }
///
///     fn error_frames(&self, answer: &Answer<'_, ()>, _sent: usize, error: &String) -> Vec<Vec<u8>> {
///         vec![answer.wire.json_line(&json!({"error": error}))]
///     }
///
///     fn stream_type(&self) -> &'static str {
///         "application/x-ndjson"
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = VendorServer::<Plain>::start([Reply::text("hello, you")]).await?;
/// assert_eq!(server.remaining(), 1);
/// # Ok(())
/// # }
/// ```
pub trait Vendor: Send + Sync + 'static {
    /// Values of a request that determine the response, except the model and the streaming flag. Examples are the
    /// endpoint and stream options. Use `()` if there are none.
    type Detail: Send;

    /// The type of the vendor's errors.
    type Error: Send;

    /// `true` if a server requires an API key by default. The default key is [`VendorServer::API_KEY`].
    const NEEDS_KEY: bool = true;

    /// Checks a whole request, including its key and its model, and returns the values that determine the response.
    ///
    /// A request that is rejected takes no reply from the script.
    ///
    /// # Errors
    ///
    /// Returns the error that the vendor sends for the request.
    fn check(
        &self,
        request: &RecordedRequest,
        rules: &Rules,
    ) -> Result<Call<Self::Detail>, Self::Error>;

    /// Returns the error that the vendor must send so that a provider converts it to `error`.
    ///
    /// The server never calls this method for [`ProviderError::Network`], and closes the connection instead.
    fn error(&self, error: &ProviderError) -> Self::Error;

    /// Returns the JSON body of a response that is not streamed.
    ///
    /// # Errors
    ///
    /// Returns an error if the endpoint of the request does not respond with messages.
    fn body(&self, answer: &Answer<'_, Self::Detail>) -> Result<Value, Self::Error>;

    /// Returns the encoded events of a streamed response, one item per event. Includes events without content, such as
    /// an end marker.
    fn frames(&self, answer: &Answer<'_, Self::Detail>) -> Vec<Vec<u8>>;

    /// Returns the JSON body of a response with embeddings.
    ///
    /// # Errors
    ///
    /// Returns an error if the endpoint of the request does not respond with embeddings. The default implementation
    /// always returns an error.
    fn embeddings(
        &self,
        call: &Call<Self::Detail>,
        response: &EmbeddingResponse,
    ) -> Result<Value, Self::Error> {
        let _ = (call, response);
        Err(self.error(&ProviderError::InvalidRequest(WANTS_MESSAGE.into())))
    }

    /// Returns the HTTP response for `error`.
    fn error_reply(&self, error: &Self::Error, request_id: &str) -> ErrorReply;

    /// Returns the encoded events that report `error` in a stream, after `sent` events of the response.
    fn error_frames(
        &self,
        answer: &Answer<'_, Self::Detail>,
        sent: usize,
        error: &Self::Error,
    ) -> Vec<Vec<u8>>;

    /// Returns the headers that the vendor adds to every response, without the content type. Default: none.
    fn headers(&self, request_id: &str) -> Vec<(String, String)> {
        let _ = request_id;
        Vec::new()
    }

    /// Returns the content type of a stream. Default: server-sent events.
    fn stream_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }
}
