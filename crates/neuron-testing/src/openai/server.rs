//! OpenAI's implementation of [`Vendor`]. It checks requests and encodes responses.

use neuron_types::{EmbeddingResponse, ProviderError};
use serde_json::{Value, json};

use super::chat::{ChatOptions, chat_body, chat_frames};
use super::check::{check_chat, check_demands, check_embeddings, check_responses};
use super::dialect::Dialect;
use super::embeddings::embeddings_body;
use super::error::ApiError;
use super::responses::Writer;
use crate::loopback::RecordedRequest;
use crate::vendor::{
    Answer, Call, ErrorReply, Rules, Vendor, VendorServer, VendorServerBuilder, WANTS_EMBEDDINGS,
    WANTS_MESSAGE,
};

/// A server that emulates OpenAI on the loopback interface.
///
/// The server responds to `POST {url}/v1/chat/completions`, `/v1/responses` and `/v1/embeddings` with replies from one
/// script.
///
/// A request that OpenAI would reject gets an error in OpenAI's format, and takes no reply from the script. Examples
/// are a wrong key, an unknown parameter and a tool call without a result.
/// [`check_chat_request`](super::check_chat_request), [`check_responses_request`](super::check_responses_request) and
/// [`check_embeddings_request`](super::check_embeddings_request) have the rules.
///
/// A request that OpenAI would accept gets the next reply. A request for embeddings gets a 400 if the next reply is not
/// an [`EmbeddingResponse`]. A request for a message gets a 400 if the next reply is an [`EmbeddingResponse`].
///
/// A [`Reply`](crate::Reply) may break after a number of events. This number counts every event on the wire, including
/// `[DONE]`.
///
/// Chat Completions sends thinking in `reasoning_content`, as compatible servers do. The Responses API sends thinking
/// in a reasoning item. If the request includes `reasoning.encrypted_content`, the encrypted content of this item is
/// the signature.
///
/// # Example
///
/// ```
/// use neuron_testing::{OpenAiServer, Reply, ServerReply};
/// use neuron_types::{EmbeddingResponse, EmbeddingUsage};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let embeddings = EmbeddingResponse {
///     embeddings: vec![vec![0.1, 0.2]],
///     model: "text-embedding-3-small".into(),
///     usage: EmbeddingUsage { prompt_tokens: 2, total_tokens: 2 },
/// };
/// let server =
///     OpenAiServer::start([ServerReply::from("hello"), ServerReply::from(embeddings)]).await?;
///
/// // Give `server.url()` and `OpenAiServer::API_KEY` to a provider.
/// assert_eq!(server.remaining(), 2);
/// # Ok(())
/// # }
/// ```
pub type OpenAiServer = VendorServer<OpenAiApi>;

/// A builder for an [`OpenAiServer`].
pub type OpenAiServerBuilder = VendorServerBuilder<OpenAiApi>;

impl VendorServerBuilder<OpenAiApi> {
    /// Sets the differences between the server and OpenAI. Default: none.
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.vendor.dialect = dialect;
        self
    }
}

/// OpenAI's rules for requests and formats of responses.
#[derive(Debug, Clone, Default)]
pub struct OpenAiApi {
    dialect: Dialect,
}

impl OpenAiApi {
    /// Creates a vendor that differs from OpenAI as `dialect` says. [`Dialect::default`] has no differences.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect }
    }
}

/// The endpoint and the body of a request. Both determine the format of the response.
#[derive(Debug)]
pub struct OpenAiCall {
    endpoint: Endpoint,
    request: Value,
}

#[derive(Debug, Clone, Copy)]
enum Endpoint {
    Chat,
    Responses,
    Embeddings,
}

impl OpenAiCall {
    /// Returns the flag `name` in the request's `stream_options`, or `None` if the request does not set the flag.
    fn option(&self, name: &str) -> Option<bool> {
        self.request.get("stream_options")?.get(name)?.as_bool()
    }

    /// Returns `true` if the stream must contain obfuscation, the padding that hides the lengths of tokens.
    fn includes_obfuscation(&self) -> bool {
        self.option("include_obfuscation") != Some(false)
    }
}

impl Vendor for OpenAiApi {
    type Detail = OpenAiCall;
    type Error = ApiError;

    /// Checks a request in the order of OpenAI's own checks, and returns its endpoint, model and streaming flag. If
    /// OpenAI would reject the request, returns OpenAI's error.
    fn check(
        &self,
        request: &RecordedRequest,
        rules: &Rules,
    ) -> Result<Call<OpenAiCall>, ApiError> {
        check_key(request, rules, self.dialect.key_header)?;
        type Check = fn(&Value, bool) -> Result<(), ApiError>;
        let path = request.path.strip_prefix(self.dialect.prefix.unwrap_or("/v1"));
        let route = (request.method.as_str(), path.unwrap_or_default());
        let (endpoint, check_body): (_, Check) = match route {
            ("POST", "/chat/completions") => (Endpoint::Chat, check_chat),
            ("POST", "/responses") => (Endpoint::Responses, check_responses),
            ("POST", "/embeddings") => (Endpoint::Embeddings, check_embeddings),
            _ => {
                let RecordedRequest { method, path, .. } = request;
                let message = format!("Invalid URL ({method} {path})");
                return Err(ApiError::new(404, "invalid_request_error", message));
            }
        };
        let Some(body) = &request.json else {
            return Err(ApiError::invalid_request(
                "We could not parse the JSON body of your request. (HINT: This likely means you \
                 aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, \
                 but what was sent was not valid JSON.)",
            ));
        };
        check_body(body, self.dialect.lenient)?;
        check_demands(body, &self.dialect)?;
        if self.dialect.usage_always && body.get("stream_options").is_some() {
            return Err(ApiError::invalid_request(
                "Extra inputs are not permitted: stream_options",
            ));
        }
        let stream = body.get("stream").is_some_and(|stream| *stream == true);
        rules.call(body, stream, OpenAiCall { endpoint, request: body.clone() })
    }

    fn error(&self, error: &ProviderError) -> ApiError {
        ApiError::from(error)
    }

    fn body(&self, answer: &Answer<'_, OpenAiCall>) -> Result<Value, ApiError> {
        match answer.call.detail.endpoint {
            Endpoint::Chat => Ok(chat_body(answer.response, &self.dialect)),
            Endpoint::Responses => Ok(writer(answer).finished()),
            Endpoint::Embeddings => Err(ApiError::invalid_request(WANTS_EMBEDDINGS)),
        }
    }

    fn frames(&self, answer: &Answer<'_, OpenAiCall>) -> Vec<Vec<u8>> {
        let Answer { response, chunk_chars, wire, .. } = *answer;
        let call = &answer.call.detail;
        match call.endpoint {
            Endpoint::Chat => {
                let options = ChatOptions {
                    include_usage: self.dialect.usage_always
                        || call.option("include_usage") == Some(true),
                    include_obfuscation: call.includes_obfuscation(),
                };
                chat_frames(response, chunk_chars, wire, &self.dialect, options)
            }
            Endpoint::Responses => {
                writer(answer).frames(chunk_chars, call.includes_obfuscation(), wire)
            }
            Endpoint::Embeddings => Vec::new(),
        }
    }

    fn embeddings(
        &self,
        call: &Call<OpenAiCall>,
        response: &EmbeddingResponse,
    ) -> Result<Value, ApiError> {
        let OpenAiCall { endpoint: Endpoint::Embeddings, request } = &call.detail else {
            return Err(ApiError::invalid_request(WANTS_MESSAGE));
        };
        let as_base64 = request.get("encoding_format").is_some_and(|format| format == "base64");
        let mut body = embeddings_body(response, as_base64 && !self.dialect.floats_only);
        if self.dialect.shuffled_embeddings
            && let Some(Value::Array(data)) = body.get_mut("data")
        {
            data.reverse();
        }
        Ok(body)
    }

    fn error_reply(&self, error: &ApiError, _request_id: &str) -> ErrorReply {
        ErrorReply::new(error.status, self.error_body(error)).retry_after(error.retry_after)
    }

    fn error_frames(
        &self,
        answer: &Answer<'_, OpenAiCall>,
        sent: usize,
        error: &ApiError,
    ) -> Vec<Vec<u8>> {
        match answer.call.detail.endpoint {
            Endpoint::Responses => {
                writer(answer).error_frames(error, sent, &self.dialect, answer.wire)
            }
            _ => vec![answer.wire.data(&self.error_body(error))],
        }
    }

    fn headers(&self, request_id: &str) -> Vec<(String, String)> {
        vec![
            ("x-request-id".into(), request_id.into()),
            ("openai-processing-ms".into(), "12".into()),
            ("openai-version".into(), "2020-10-01".into()),
        ]
    }
}

impl OpenAiApi {
    /// Returns the JSON body of an error in this dialect.
    fn error_body(&self, error: &ApiError) -> Value {
        let mut body = error.body();
        if self.dialect.numeric_codes
            && let Some(code) = body.pointer_mut("/error/code")
        {
            let is_too_long = *code == "context_length_exceeded";
            *code = json!(error.status);
            // With a numeric code, the code does not identify this error, so llama.cpp sends the name of the error in
            // `type`.
            if is_too_long && let Some(kind) = body.pointer_mut("/error/type") {
                *kind = json!("exceed_context_size_error");
            }
        }
        body
    }
}

/// Creates the encoder of a response of the Responses API.
fn writer<'a>(answer: &Answer<'a, OpenAiCall>) -> Writer<'a> {
    let request = &answer.call.detail.request;
    let included = request.get("include").and_then(Value::as_array);
    let is_encrypted = included.into_iter().flatten().any(|it| it == "reasoning.encrypted_content");
    // OpenAI sends encrypted content for every reasoning item if the request includes it.
    Writer { response: answer.response, request, encrypted: is_encrypted.then_some("encrypted") }
}

/// Checks the key of a request. The key is in the header `header`, or in `authorization` if `header` is `None`.
fn check_key(
    request: &RecordedRequest,
    rules: &Rules,
    header: Option<&str>,
) -> Result<(), ApiError> {
    let refused = |message: &str| ApiError::new(401, "invalid_request_error", message);
    match header.map_or_else(|| request.bearer(), |name| request.header(name)) {
        key if rules.accepts_key(key) => Ok(()),
        Some(key) => {
            let message = format!(
                "Incorrect API key provided: {}. You can find your API key at \
                 https://platform.openai.com/account/api-keys.",
                masked(key)
            );
            Err(refused(&message).code("invalid_api_key"))
        }
        None => Err(refused(
            "You didn't provide an API key. You need to provide your API key in an Authorization \
             header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        )),
    }
}

/// Masks a key for an error text as OpenAI does. A key of 16 characters or more keeps its first and last four
/// characters, and a shorter key keeps none.
fn masked(key: &str) -> String {
    let length = key.chars().count();
    let hidden = |index: usize| length < 16 || (4..length - 4).contains(&index);
    key.chars().enumerate().map(|(index, c)| if hidden(index) { '*' } else { c }).collect()
}
