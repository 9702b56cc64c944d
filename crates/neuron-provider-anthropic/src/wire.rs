//! Functions that serialise requests and parse responses, without HTTP. Use them for other transports, recorded
//! responses, fuzzing and benchmarks.

use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use neuron_http::http::header::HeaderMap;
use neuron_http::{AnswerStream, Rejection, Secret};
use neuron_model::{CompletionResponse, ProviderError, RequestRef, StreamHandle, WasmCompatSend};

use crate::client::{DEFAULT_MAX_TOKENS, DEFAULT_MODEL};
use crate::request::{self, Settings};
use crate::response;
use crate::stream::MessageDecoder;

/// Serialises a request with the default settings of [`Anthropic`](crate::Anthropic). `stream` requests a streamed
/// response.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has content or a setting that the API cannot express, or if its
/// `extra` is not an object or sets `stream`.
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

/// Parses the body of a response that is not streamed.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body is neither an error nor a message.
pub fn read_response(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
    let nothing = Secret::default();
    response::read(body, &nothing).map_err(|error| nothing.redact_error(error))
}

/// Decodes a streamed response from byte chunks of any size.
pub fn read_stream<B>(body: B) -> StreamHandle
where
    B: Stream<Item = Result<Bytes, ProviderError>> + Unpin + WasmCompatSend + 'static,
{
    AnswerStream::from_bytes(body, MessageDecoder::default(), Secret::default()).into()
}

/// Converts an HTTP response whose status is not a success into an error.
#[must_use]
pub fn read_error(status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
    let rejection = Rejection::new(status, headers.clone(), body, Duration::ZERO);
    Secret::default().redact_error(rejection.error())
}
