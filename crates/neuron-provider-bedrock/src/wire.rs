//! Functions that serialise requests and parse responses, without HTTP. Use them for other transports, recorded
//! responses, fuzzing and benchmarks.

use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use neuron_http::http::header::HeaderMap;
use neuron_http::{AnswerStream, Rejection, Secret};
use neuron_model::{CompletionResponse, ProviderError, RequestRef, StreamHandle, WasmCompatSend};

use crate::client::DEFAULT_MODEL;
use crate::content::Origin;
use crate::model::Model;
use crate::request::{self, Settings};
use crate::stream::ConverseDecoder;
use crate::{error, response};

/// Serialises a request. The body is the same for a whole and for a streamed response. The id of the model is not a part
/// of the body, but the body depends on the model.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has content or a setting that the API cannot express, or if its
/// `extra` is not an object or sets `stream`.
///
/// # Example
///
/// ```
/// use neuron_provider_bedrock::wire;
/// use neuron_provider_bedrock::types::{CompletionRequest, Message};
///
/// let request = CompletionRequest {
///     messages: vec![Message::user("hi")],
///     max_tokens: Some(64),
///     ..Default::default()
/// };
/// let body = String::from_utf8(wire::write_request(request.view())?)?;
/// assert_eq!(
///     body,
///     r#"{"inferenceConfig":{"maxTokens":64},"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#
/// );
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn write_request(request: RequestRef<'_>) -> Result<Vec<u8>, ProviderError> {
    let model = Model::new(request::model_of(request, DEFAULT_MODEL), "");
    request::write(request, model, Settings::default())
}

/// Returns the origin of a response whose request is not known, so the default model counts as asked.
fn origin() -> Origin {
    Origin::new(Model::new(DEFAULT_MODEL, ""))
}

/// Parses the body of a response that is not streamed, from the [default model](crate::DEFAULT_MODEL). The id of the
/// response is empty, because it is in a header.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body is neither an error nor a complete
/// response of the API.
pub fn read_response(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
    let nothing = Secret::default();
    response::read(body, &nothing, origin()).map_err(|error| nothing.redact_error(error))
}

/// Decodes a streamed response of the [default model](crate::DEFAULT_MODEL) from byte chunks of any size.
pub fn read_stream<B>(body: B) -> StreamHandle
where
    B: Stream<Item = Result<Bytes, ProviderError>> + Unpin + WasmCompatSend + 'static,
{
    AnswerStream::from_bytes(body, ConverseDecoder::new(origin()), Secret::default()).into()
}

/// Converts an HTTP response whose status is not a success into an error.
#[must_use]
pub fn read_error(status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
    let rejection = Rejection::new(status, headers.clone(), body, Duration::ZERO);
    Secret::default().redact_error(error::from_rejection(&rejection))
}
