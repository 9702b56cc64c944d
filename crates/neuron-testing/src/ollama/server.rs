//! Ollama's implementation of [`Vendor`]. It checks requests and encodes responses.

use neuron_types::{EmbeddingResponse, ProviderError};
use serde_json::Value;

use super::chat::{chat_body, chat_frames};
use super::check::{check_chat_request, check_embed_request};
use super::dialect::Dialect;
use super::embeddings::embeddings_body;
use super::error::ApiError;
use crate::loopback::RecordedRequest;
use crate::vendor::{
    Answer, Call, ErrorReply, Rules, Vendor, VendorServer, VendorServerBuilder, WANTS_EMBEDDINGS,
    WANTS_MESSAGE,
};

/// A server that emulates Ollama on the loopback interface.
///
/// The server responds to `POST {url}/api/chat` and `/api/embed` with replies from one script.
///
/// A request that Ollama would reject gets an error in Ollama's format, and takes no reply from the script.
/// [`check_chat_request`] and [`check_embed_request`] have the rules.
///
/// A request that Ollama would accept gets the next reply. A chat is streamed as lines of JSON unless the request has
/// `"stream": false`. A request for embeddings gets a 400 if the next reply is not an [`EmbeddingResponse`]. A chat
/// gets a 400 if the next reply is an [`EmbeddingResponse`].
///
/// The server requires a key only if the builder sets one. A [`Reply`](crate::Reply) may break after a number of
/// events, and each line counts as an event. An error within a stream is sent as a line whose only field is the error
/// text.
///
/// # Example
///
/// ```
/// use neuron_testing::{OllamaServer, Reply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = OllamaServer::start([
///     Reply::tool_call("call_a1b2c3d4", "add", serde_json::json!({"a": 2, "b": 2})),
///     Reply::text("It is 4."),
/// ])
/// .await?;
///
/// // Give `server.url()` to a provider.
/// assert_eq!(server.remaining(), 2);
/// # Ok(())
/// # }
/// ```
pub type OllamaServer = VendorServer<OllamaApi>;

/// A builder for an [`OllamaServer`].
pub type OllamaServerBuilder = VendorServerBuilder<OllamaApi>;

impl VendorServerBuilder<OllamaApi> {
    /// Sets the differences between the server and a current Ollama. Default: none.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.vendor.dialect = dialect;
        self
    }
}

/// Ollama's rules for requests and formats of responses.
#[derive(Debug, Clone, Default)]
pub struct OllamaApi {
    dialect: Dialect,
}

/// The endpoint of a request. It determines the format of the response.
#[derive(Debug)]
pub struct OllamaCall {
    endpoint: Endpoint,
}

#[derive(Debug, PartialEq, Eq)]
enum Endpoint {
    Chat,
    Embed,
}

impl Vendor for OllamaApi {
    type Detail = OllamaCall;
    type Error = ApiError;

    const NEEDS_KEY: bool = false;

    /// Checks a request in the order of Ollama's own checks, and returns its endpoint, model and streaming flag. If
    /// Ollama would reject the request, returns Ollama's error.
    fn check(
        &self,
        request: &RecordedRequest,
        rules: &Rules,
    ) -> Result<Call<OllamaCall>, ApiError> {
        let endpoint = match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/api/chat") => Endpoint::Chat,
            ("POST", "/api/embed") => Endpoint::Embed,
            (_, "/api/chat" | "/api/embed") => {
                return Err(ApiError::new(405, "405 method not allowed"));
            }
            _ => return Err(ApiError::new(404, "404 page not found")),
        };
        if !rules.accepts_key(request.bearer()) {
            return Err(ApiError::new(401, "unauthorized"));
        }
        let Some(body) = &request.json else {
            let message = match request.body.as_slice() {
                [] => "missing request body",
                _ => "the request body is no JSON",
            };
            return Err(ApiError::invalid_request(message));
        };
        match endpoint {
            Endpoint::Chat => check_chat_request(body)?,
            Endpoint::Embed => check_embed_request(body)?,
        }
        let stream =
            endpoint == Endpoint::Chat && body.get("stream").is_none_or(|stream| *stream != false);
        rules.call(body, stream, OllamaCall { endpoint })
    }

    fn error(&self, error: &ProviderError) -> ApiError {
        ApiError::from(error)
    }

    fn body(&self, answer: &Answer<'_, OllamaCall>) -> Result<Value, ApiError> {
        match answer.call.detail.endpoint {
            Endpoint::Chat => Ok(chat_body(answer.response, &self.dialect)),
            Endpoint::Embed => Err(ApiError::invalid_request(WANTS_EMBEDDINGS)),
        }
    }

    fn frames(&self, answer: &Answer<'_, OllamaCall>) -> Vec<Vec<u8>> {
        chat_frames(answer.response, answer.chunk_chars, answer.wire, &self.dialect)
    }

    fn embeddings(
        &self,
        call: &Call<OllamaCall>,
        response: &EmbeddingResponse,
    ) -> Result<Value, ApiError> {
        if call.detail.endpoint != Endpoint::Embed {
            return Err(ApiError::invalid_request(WANTS_MESSAGE));
        }
        Ok(embeddings_body(response))
    }

    fn error_reply(&self, error: &ApiError, _request_id: &str) -> ErrorReply {
        ErrorReply::new(error.status, error.body()).retry_after(error.retry_after)
    }

    fn error_frames(
        &self,
        answer: &Answer<'_, OllamaCall>,
        _sent: usize,
        error: &ApiError,
    ) -> Vec<Vec<u8>> {
        vec![answer.wire.json_line(&error.body())]
    }

    fn stream_type(&self) -> &'static str {
        "application/x-ndjson"
    }
}
