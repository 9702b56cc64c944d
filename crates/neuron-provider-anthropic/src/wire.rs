//! The API's wire without HTTP: plain functions, for a transport of one's own, for recorded answers,
//! for fuzzing and benchmarks.

use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use neuron_http::http::header::HeaderMap;
use neuron_http::{AnswerStream, Rejection, Secret};
use neuron_types::{CompletionResponse, ProviderError, RequestRef, StreamHandle, WasmCompatSend};

use crate::client::{DEFAULT_MAX_TOKENS, DEFAULT_MODEL};
use crate::request::{self, Settings};
use crate::response;
use crate::stream::MessageAnswer;

/// Writes the body of a request, as [`Anthropic`](crate::Anthropic) does with its defaults.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] for what the API cannot express.
///
/// # Example
///
/// ```
/// use neuron_provider_anthropic::wire;
/// use neuron_provider_anthropic::types::{CompletionRequest, Message};
///
/// let request = CompletionRequest { messages: vec![Message::user("hi")], ..Default::default() };
/// let body = String::from_utf8(wire::write_request(request.view(), false)?)?;
/// assert!(body.ends_with(r#""messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn write_request(request: RequestRef<'_>, stream: bool) -> Result<Vec<u8>, ProviderError> {
    let settings =
        Settings { model: DEFAULT_MODEL, max_tokens: DEFAULT_MAX_TOKENS, ..Settings::default() };
    request::write(request, settings, stream)
}

/// Reads the body of an answer that is not streamed.
///
/// # Errors
///
/// [`ProviderError::Other`] when it is not a message, and the error that it holds in place of one.
pub fn read_response(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
    let nothing = Secret::default();
    response::read(body, &nothing).map_err(|error| nothing.redact_error(error))
}

/// Reads a streamed answer from its bytes, however they are cut.
pub fn read_stream<B>(body: B) -> StreamHandle
where
    B: Stream<Item = Result<Bytes, ProviderError>> + Unpin + WasmCompatSend + 'static,
{
    AnswerStream::from_bytes(body, MessageAnswer::default(), Secret::default()).into()
}

/// Makes an error of a response whose status is not a success.
#[must_use]
pub fn read_error(status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
    let rejection = Rejection::new(status, headers.clone(), body, Duration::ZERO);
    Secret::default().redact_error(rejection.error())
}
