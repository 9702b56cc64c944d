//! The common parts of the vendors' loopback servers, and the trait for a vendor of your own.
//!
//! A [`VendorServer`] has the script, the key, the models and the record; a [`Vendor`] says which
//! requests are good and what answers look like. Anthropic's, OpenAI's and Ollama's are in this
//! crate; implement the trait to play another.

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

/// The error for a script whose reply is of the other kind.
pub(crate) const WANTS_MESSAGE: &str =
    "the script's reply holds embeddings, and this request asks for a message";
pub(crate) const WANTS_EMBEDDINGS: &str =
    "the script's reply holds a message, and this request asks for embeddings";

/// A vendor that a [`VendorServer`] plays: what it refuses, and the form of its answers.
///
/// All methods are plain functions of what they are given: the server has the script, the key, the
/// connections, and whatever breaks.
///
/// # Example: a vendor that answers in plain words
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
    /// What else an answer follows from: the endpoint, options of the request. `()` if nothing.
    type Detail: Send;

    /// An error of the vendor's.
    type Error: Send;

    /// Whether a server that is told no key asks for [`VendorServer::API_KEY`].
    const NEEDS_KEY: bool = true;

    /// Checks a request in full, key and model included, and says what it asks for.
    ///
    /// A request that is refused uses up no reply.
    ///
    /// # Errors
    ///
    /// What the vendor would answer.
    fn check(
        &self,
        request: &RecordedRequest,
        rules: &Rules,
    ) -> Result<Call<Self::Detail>, Self::Error>;

    /// Returns the error from which a provider makes this one again.
    ///
    /// Never asked for [`ProviderError::Network`], for which connections are closed.
    fn error(&self, error: &ProviderError) -> Self::Error;

    /// Returns an answer in one piece.
    ///
    /// # Errors
    ///
    /// When the endpoint that was called does not answer with messages.
    fn body(&self, answer: &Answer<'_, Self::Detail>) -> Result<Value, Self::Error>;

    /// Returns an answer as a stream: the bytes of every event, all that the vendor sends included.
    fn frames(&self, answer: &Answer<'_, Self::Detail>) -> Vec<Vec<u8>>;

    /// Returns the body for embeddings.
    ///
    /// # Errors
    ///
    /// When the endpoint that was called does not answer with embeddings, as unless implemented.
    fn embeddings(
        &self,
        call: &Call<Self::Detail>,
        response: &EmbeddingResponse,
    ) -> Result<Value, Self::Error> {
        let _ = (call, response);
        Err(self.error(&ProviderError::InvalidRequest(WANTS_MESSAGE.into())))
    }

    /// Returns how an error is answered.
    fn error_reply(&self, error: &Self::Error, request_id: &str) -> ErrorReply;

    /// Returns the events with which a stream breaks after so many of its own.
    fn error_frames(
        &self,
        answer: &Answer<'_, Self::Detail>,
        sent: usize,
        error: &Self::Error,
    ) -> Vec<Vec<u8>>;

    /// Returns the headers of every answer, besides its content type: none unless implemented.
    fn headers(&self, request_id: &str) -> Vec<(String, String)> {
        let _ = request_id;
        Vec::new()
    }

    /// Returns the content type of a stream: server-sent events unless implemented.
    fn stream_type(&self) -> &'static str {
        "text/event-stream; charset=utf-8"
    }
}
