//! Gemini's implementation of [`Vendor`]. It checks requests and encodes responses.

use neuron_types::{EmbeddingResponse, ProviderError};
use serde_json::{Value, json};

use super::check::{check_embeddings_request, check_request};
use super::embeddings::{content_body, embeddings_body, predictions_body};
use super::error::ApiError;
use super::response::{json_body, stream_chunks};
use super::route::{Method, Platform, Route};
use crate::loopback::RecordedRequest;
use crate::vendor::{
    Answer, Call, ErrorReply, Rules, Vendor, VendorServer, VendorServerBuilder, WANTS_EMBEDDINGS,
    WANTS_MESSAGE,
};

/// A server that emulates the Gemini API on the loopback interface, as Google AI and as Vertex AI serve it.
///
/// The server responds to `POST` requests to the paths of [`Route`] with replies from one script. A request to a path
/// of Vertex AI with a project needs the key as a bearer token. All other requests need the key in `x-goog-api-key`.
///
/// A request that Gemini would reject gets an error in Gemini's format, and takes no reply from the script.
/// [`check_request`] and [`check_embeddings_request`] have the rules for the body.
///
/// A request that Gemini would accept gets the next reply. `streamGenerateContent` sends server-sent events if the URL
/// has `alt=sse`, and otherwise one JSON array of all chunks. A request for embeddings gets a 400 if the next reply is
/// not an [`EmbeddingResponse`]. Any other request gets a 400 if the next reply is an [`EmbeddingResponse`].
/// `embedContent` gets a 400 if the next reply does not have one vector.
///
/// The server signs its responses as Gemini does, see [`thought_signature`](super::thought_signature). So the content
/// of a response has a signature that the script does not have.
///
/// A [`Reply`](crate::Reply) may break after a number of events, and each chunk counts as an event. An error within a
/// stream is sent as a chunk whose only field is `error`.
///
/// # Example
///
/// ```
/// use neuron_testing::{GeminiServer, Reply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = GeminiServer::start([
///     Reply::tool_call("call_1", "add", serde_json::json!({"a": 2, "b": 2})),
///     Reply::text("It is 4."),
/// ])
/// .await?;
///
/// // Give `server.url()` and `GeminiServer::API_KEY` to a provider.
/// assert_eq!(server.remaining(), 2);
/// # Ok(())
/// # }
/// ```
pub type GeminiServer = VendorServer<GeminiApi>;

/// A builder for a [`GeminiServer`].
pub type GeminiServerBuilder = VendorServerBuilder<GeminiApi>;

/// Gemini's rules for requests and formats of responses.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct GeminiApi;

impl Vendor for GeminiApi {
    type Detail = Route;
    type Error = ApiError;

    /// Checks a request in the order of Gemini's own checks, and returns its model, streaming flag and path. If Gemini
    /// would reject the request, returns Gemini's error.
    fn check(&self, request: &RecordedRequest, rules: &Rules) -> Result<Call<Route>, ApiError> {
        let route = Route::parse(&request.path).filter(|_| request.method == "POST");
        let Some(route) = route else {
            return Err(ApiError::new(404, "NOT_FOUND", "Method not found."));
        };
        if request.body.len() > MAX_BODY {
            let message = "Request payload size exceeds the limit: 104857600 bytes.";
            return Err(ApiError::invalid_argument(message));
        }
        check_key(request, rules, &route)?;
        let Some(body) = &request.json else {
            let message = "Invalid JSON payload received. Expected a value.";
            return Err(ApiError::invalid_argument(message));
        };
        if !rules.has_model(&route.model) {
            return Err(unknown_model(&route));
        }
        match route.method {
            method if method.is_embedding() => check_embeddings_request(body, &route)?,
            _ => check_request(body, &route)?,
        }
        let is_sse = request.query.split('&').any(|pair| pair == "alt=sse");
        let stream = is_sse && route.method == Method::StreamGenerateContent;
        Ok(Call::new(route.model.clone(), stream, route))
    }

    fn error(&self, error: &ProviderError) -> ApiError {
        ApiError::from(error)
    }

    fn body(&self, answer: &Answer<'_, Route>) -> Result<Value, ApiError> {
        let Answer { response, chunk_chars, .. } = *answer;
        let route = &answer.call.detail;
        match route.method {
            Method::GenerateContent => Ok(json_body(response, route)),
            Method::StreamGenerateContent => Ok(stream_chunks(response, chunk_chars, route).into()),
            Method::BatchEmbedContents | Method::EmbedContent | Method::Predict => {
                Err(ApiError::invalid_argument(WANTS_EMBEDDINGS))
            }
        }
    }

    fn frames(&self, answer: &Answer<'_, Route>) -> Vec<Vec<u8>> {
        let chunks = stream_chunks(answer.response, answer.chunk_chars, &answer.call.detail);
        chunks.iter().map(|chunk| answer.wire.data(chunk)).collect()
    }

    fn embeddings(
        &self,
        call: &Call<Route>,
        response: &EmbeddingResponse,
    ) -> Result<Value, ApiError> {
        match call.detail.method {
            Method::BatchEmbedContents => Ok(embeddings_body(response)),
            Method::EmbedContent => content_body(response),
            Method::Predict => Ok(predictions_body(response)),
            _ => Err(ApiError::invalid_argument(WANTS_MESSAGE)),
        }
    }

    fn error_reply(&self, error: &ApiError, _request_id: &str) -> ErrorReply {
        ErrorReply::new(error.code, error.body())
    }

    fn error_frames(
        &self,
        answer: &Answer<'_, Route>,
        _sent: usize,
        error: &ApiError,
    ) -> Vec<Vec<u8>> {
        vec![answer.wire.data(&error.body())]
    }

    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }
}

/// Maximum size of a request body that Gemini accepts, in bytes.
const MAX_BODY: usize = 100 * 1024 * 1024;

/// Checks the key of a request. A path of Vertex AI with a project needs an OAuth token, and every other path an API
/// key.
fn check_key(request: &RecordedRequest, rules: &Rules, route: &Route) -> Result<(), ApiError> {
    if route.project.is_some() {
        if rules.accepts_key(request.bearer()) {
            return Ok(());
        }
        let message = "Request had invalid authentication credentials. Expected OAuth 2 access \
                       token, login cookie or other valid authentication credential. See \
                       https://developers.google.com/identity/sign-in/web/devconsole-project.";
        return Err(ApiError::new(401, "UNAUTHENTICATED", message));
    }
    let service = match route.platform {
        Platform::GoogleAi => "generativelanguage.googleapis.com",
        Platform::Vertex => "aiplatform.googleapis.com",
    };
    match request.header("x-goog-api-key") {
        key if rules.accepts_key(key) => Ok(()),
        Some(_) => {
            Err(ApiError::invalid_argument("API key not valid. Please pass a valid API key.")
                .detail(
                    "ErrorInfo",
                    json!({
                        "reason": "API_KEY_INVALID",
                        "domain": "googleapis.com",
                        "metadata": {"service": service},
                    }),
                ))
        }
        None => {
            let message = "Method doesn't allow unregistered callers (callers without established \
                           identity). Please use API Key or other form of API consumer identity to \
                           call this API.";
            Err(ApiError::new(403, "PERMISSION_DENIED", message))
        }
    }
}

/// Returns the error for a model that does not exist.
fn unknown_model(route: &Route) -> ApiError {
    let Route { version, model, .. } = route;
    let method = match route.method {
        Method::BatchEmbedContents => "batchEmbedContents",
        _ => "generateContent",
    };
    let message = match (route.platform, &route.project) {
        (Platform::GoogleAi, _) => format!(
            "models/{model} is not found for API version {version}, or is not supported for \
             {method}. Call ListModels to see the list of available models and their supported \
             methods."
        ),
        (Platform::Vertex, project) => {
            let project = project.as_deref().unwrap_or_default();
            format!(
                "Publisher Model `projects/{project}/publishers/google/models/{model}` was not \
                 found or your project does not have access to it."
            )
        }
    };
    ApiError::new(404, "NOT_FOUND", message)
}
