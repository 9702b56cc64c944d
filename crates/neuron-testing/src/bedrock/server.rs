//! Bedrock's implementation of [`Vendor`]. It checks requests and encodes responses.

use neuron_types::ProviderError;
use serde_json::Value;

use super::auth::{self, check_key};
use super::check::check_request;
use super::error::ApiError;
use super::response::{json_body, stream_frames};
use super::route::{Method, Route};
use crate::loopback::RecordedRequest;
use crate::vendor::{Answer, Call, ErrorReply, Rules, Vendor, VendorServer, VendorServerBuilder};

/// A server that emulates the Converse API of Amazon Bedrock on the loopback interface.
///
/// The server responds to `POST` requests to the paths of [`Route`] with replies from one script. A request needs the
/// bearer key of the server, or a signature of version 4 with
/// [`ACCESS_KEY_ID`](BedrockServer::ACCESS_KEY_ID) and [`SECRET_ACCESS_KEY`](BedrockServer::SECRET_ACCESS_KEY), for
/// the service `bedrock` and any region. The date of a signature is not compared with the clock, and every session
/// token is accepted.
///
/// A request that Bedrock would reject gets an error in Bedrock's format, and takes no reply from the script.
/// [`check_request`] has the rules for the body.
///
/// A request that Bedrock would accept gets the next reply, as JSON from `converse`, and as binary frames from
/// `converse-stream`. The content of a response may have a signature that the script does not have, see
/// [`reasoning_signature`](super::reasoning_signature).
///
/// A [`Reply`](crate::Reply) may break after a number of events, and each frame counts as an event. An error within a
/// stream is sent as an exception, or as an error message if Bedrock's streams do not have the exception
/// ([`ApiError::frame`]).
///
/// The line format of a [`Wire`](crate::Wire) has no effect on binary frames, except for comments and padding. A
/// comment becomes an event of an unknown type before each event, and padding becomes an unknown field.
///
/// # Example
///
/// ```
/// use neuron_testing::{BedrockServer, Reply};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = BedrockServer::start([
///     Reply::tool_call("call_1", "add", serde_json::json!({"a": 2, "b": 2})),
///     Reply::text("It is 4."),
/// ])
/// .await?;
///
/// // Give `server.url()` and `BedrockServer::API_KEY` to a provider.
/// assert_eq!(server.remaining(), 2);
/// # Ok(())
/// # }
/// ```
pub type BedrockServer = VendorServer<BedrockApi>;

/// A builder for a [`BedrockServer`].
pub type BedrockServerBuilder = VendorServerBuilder<BedrockApi>;

impl VendorServer<BedrockApi> {
    /// The id of the access key that a server accepts in signed requests.
    pub const ACCESS_KEY_ID: &'static str = auth::ACCESS_KEY_ID;

    /// The secret of the access key that a server accepts in signed requests.
    pub const SECRET_ACCESS_KEY: &'static str = auth::SECRET_ACCESS_KEY;
}

/// Bedrock's rules for requests and formats of responses.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct BedrockApi;

impl Vendor for BedrockApi {
    type Detail = Route;
    type Error = ApiError;

    /// Checks a request in the order of Bedrock's own checks, and returns its model, streaming flag and path. If Bedrock
    /// would reject the request, returns Bedrock's error.
    fn check(&self, request: &RecordedRequest, rules: &Rules) -> Result<Call<Route>, ApiError> {
        let route = Route::parse(&request.path).filter(|_| request.method == "POST");
        let Some(route) = route else {
            return Err(ApiError::new(404, "UnknownOperationException", "Unknown operation."));
        };
        check_key(request, rules)?;
        let Some(body) = &request.json else {
            let message = "The request body is not valid JSON.";
            return Err(ApiError::new(400, "SerializationException", message));
        };
        if !rules.has_model(&route.model) {
            return Err(ApiError::validation("The provided model identifier is invalid."));
        }
        check_request(body, &route)?;
        let stream = route.method == Method::ConverseStream;
        Ok(Call::new(route.model.clone(), stream, route))
    }

    fn error(&self, error: &ProviderError) -> ApiError {
        ApiError::from(error)
    }

    fn body(&self, answer: &Answer<'_, Route>) -> Result<Value, ApiError> {
        Ok(json_body(answer.response, &answer.call.detail))
    }

    fn frames(&self, answer: &Answer<'_, Route>) -> Vec<Vec<u8>> {
        stream_frames(answer.response, answer.chunk_chars, answer.wire, &answer.call.detail)
    }

    fn error_reply(&self, error: &ApiError, _request_id: &str) -> ErrorReply {
        let reply = ErrorReply::new(error.status, error.body());
        error.headers().into_iter().fold(reply, |reply, (name, value)| reply.header(name, value))
    }

    fn error_frames(
        &self,
        _answer: &Answer<'_, Route>,
        _sent: usize,
        error: &ApiError,
    ) -> Vec<Vec<u8>> {
        vec![error.frame()]
    }

    fn headers(&self, request_id: &str) -> Vec<(String, String)> {
        vec![("x-amzn-requestid".into(), request_id.into())]
    }

    fn stream_type(&self) -> &'static str {
        "application/vnd.amazon.eventstream"
    }
}
