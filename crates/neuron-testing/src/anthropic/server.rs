//! Anthropic's implementation of [`Vendor`]. It checks requests and encodes responses.

use neuron_types::ProviderError;
use serde_json::Value;

use super::check::{check_request, check_version};
use super::error::ApiError;
use super::response::json_body;
use super::stream::{event_bytes, stream_events};
use crate::loopback::RecordedRequest;
use crate::vendor::{Answer, Call, ErrorReply, Rules, Vendor, VendorServer, VendorServerBuilder};

/// A server that emulates Anthropic's Messages API on the loopback interface.
///
/// The server responds to `POST {url}/v1/messages` with replies from a script.
///
/// A request that Anthropic would reject gets an error in Anthropic's format, and takes no reply from the script.
/// Examples are a wrong key, a missing header, an unknown field and a tool call without a result. [`check_request`] has
/// the rules for the body.
///
/// A request that Anthropic would accept gets the next reply. The reply is sent as server-sent events if the request
/// has `"stream": true`, and as JSON otherwise. A request after the last reply gets a 400.
///
/// A [`Reply`](crate::Reply) may break after a number of events. This number counts every event on the wire, including
/// pings.
///
/// # Example
///
/// ```
/// use neuron_testing::{AnthropicServer, Reply};
/// use neuron_types::ProviderError;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = AnthropicServer::start([
///     Reply::error(ProviderError::ServiceUnavailable("Overloaded".into())),
///     Reply::text("hello").chunk_chars(2),
/// ])
/// .await?;
///
/// // Give `server.url()` and `AnthropicServer::API_KEY` to a provider, run the code under test, and then check
/// // the requests.
/// assert!(server.url().starts_with("http://127.0.0.1:"));
/// assert!(server.bodies().is_empty());
/// assert_eq!(server.remaining(), 2);
/// # Ok(())
/// # }
/// ```
pub type AnthropicServer = VendorServer<AnthropicApi>;

/// A builder for an [`AnthropicServer`].
pub type AnthropicServerBuilder = VendorServerBuilder<AnthropicApi>;

/// Anthropic's rules for requests and formats of responses.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct AnthropicApi;

impl Vendor for AnthropicApi {
    type Detail = ();
    type Error = ApiError;

    /// Checks a request in the order of Anthropic's own checks, and returns its model and streaming flag. If Anthropic
    /// would reject the request, returns Anthropic's error.
    fn check(&self, request: &RecordedRequest, rules: &Rules) -> Result<Call<()>, ApiError> {
        if request.method != "POST" || request.path != "/v1/messages" {
            return Err(ApiError::new(404, "not_found_error", "Not Found"));
        }
        if request.body.len() > MAX_BODY {
            let message = "Request exceeds the maximum size";
            return Err(ApiError::new(413, "request_too_large", message));
        }
        check_key(request, rules)?;
        let Some(version) = request.header("anthropic-version") else {
            let message = "anthropic-version: header is required";
            return Err(ApiError::invalid_request(message));
        };
        let Some(body) = &request.json else {
            let message = "The request body is not valid JSON";
            return Err(ApiError::invalid_request(message));
        };
        check_version(body, version)?;
        check_request(body, &betas(request))?;
        rules.call(body, body.get("stream").is_some_and(|stream| *stream == true), ())
    }

    fn error(&self, error: &ProviderError) -> ApiError {
        ApiError::from(error)
    }

    fn body(&self, answer: &Answer<'_, ()>) -> Result<Value, ApiError> {
        Ok(json_body(answer.response))
    }

    fn frames(&self, answer: &Answer<'_, ()>) -> Vec<Vec<u8>> {
        let events = stream_events(answer.response, answer.chunk_chars);
        events.iter().map(|event| event_bytes(event, answer.wire)).collect()
    }

    fn error_reply(&self, error: &ApiError, request_id: &str) -> ErrorReply {
        ErrorReply::new(error.status, error.body(request_id)).retry_after(error.retry_after)
    }

    fn error_frames(
        &self,
        answer: &Answer<'_, ()>,
        _sent: usize,
        error: &ApiError,
    ) -> Vec<Vec<u8>> {
        vec![event_bytes(&error.body(answer.request_id), answer.wire)]
    }

    fn headers(&self, request_id: &str) -> Vec<(String, String)> {
        vec![("request-id".into(), request_id.into())]
    }
}

/// Checks the key of a request. If both headers are sent, `x-api-key` is checked and `authorization` is ignored, as at
/// Anthropic.
fn check_key(request: &RecordedRequest, rules: &Rules) -> Result<(), ApiError> {
    let key = request.header("x-api-key").or(request.bearer());
    let message = match key {
        key if rules.accepts_key(key) => return Ok(()),
        Some(_) => "invalid x-api-key",
        None => "x-api-key header is required",
    };
    Err(ApiError::new(401, "authentication_error", message))
}

/// Maximum size of a request body that Anthropic accepts, in bytes.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// Returns the beta names in all `anthropic-beta` headers. A header may list several names, separated by commas.
fn betas(request: &RecordedRequest) -> Vec<&str> {
    request
        .headers
        .iter()
        .filter(|(name, _)| name == "anthropic-beta")
        .flat_map(|(_, value)| value.split(','))
        .map(str::trim)
        .collect()
}
