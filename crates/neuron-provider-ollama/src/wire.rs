//! Functions that serialise requests and parse responses, without HTTP. Use them for other transports, recorded
//! responses, fuzzing and benchmarks.

use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use neuron_http::http::header::HeaderMap;
use neuron_http::{AnswerStream, Rejection, Secret};
use neuron_model::{
    CompletionResponse, EmbeddingError, EmbeddingRequest, EmbeddingResponse, ProviderError,
    RequestRef, StreamHandle, WasmCompatSend,
};

use crate::client::DEFAULT_MODEL;
use crate::request::{self, Settings};
use crate::stream::ChatDecoder;
use crate::{embed, error, response};

/// Serialises a request with the default settings of [`Ollama`](crate::Ollama). `stream` requests a streamed response.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has content or a setting that the API cannot express, or if its
/// `extra` is not an object or sets `stream`.
///
/// # Example
///
/// ```
/// use neuron_provider_ollama::wire;
/// use neuron_provider_ollama::types::{CompletionRequest, Message};
///
/// let request = CompletionRequest { messages: vec![Message::user("hi")], ..Default::default() };
/// let body = String::from_utf8(wire::write_request(request.view(), false)?)?;
/// assert_eq!(
///     body,
///     r#"{"model":"llama3.2","stream":false,"messages":[{"role":"user","content":"hi"}]}"#
/// );
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn write_request(request: RequestRef<'_>, stream: bool) -> Result<Vec<u8>, ProviderError> {
    request::write(request, Settings { model: DEFAULT_MODEL, ..Settings::default() }, stream)
}

/// Parses the body of a response that is not streamed.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body is neither an error nor a response
/// of the API.
pub fn read_response(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
    let nothing = Secret::default();
    response::read(body, &nothing).map_err(|error| nothing.redact_error(error))
}

/// Decodes a streamed response from byte chunks of any size.
pub fn read_stream<B>(body: B) -> StreamHandle
where
    B: Stream<Item = Result<Bytes, ProviderError>> + Unpin + WasmCompatSend + 'static,
{
    AnswerStream::from_bytes(body, ChatDecoder::default(), Secret::default()).into()
}

/// Converts an HTTP response whose status is not a success into an error.
#[must_use]
pub fn read_error(status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
    let rejection = Rejection::new(status, headers.clone(), body, Duration::ZERO);
    Secret::default().redact_error(error::from_rejection(&rejection))
}

/// Serialises a request for embeddings.
///
/// # Errors
///
/// [`EmbeddingError::InvalidRequest`] if the request cannot be serialised, or if its `extra` has invalid options.
pub fn write_embedding_request(request: &EmbeddingRequest) -> Result<Vec<u8>, EmbeddingError> {
    Ok(embed::write(request, Settings::default())?)
}

/// Parses the response to an embedding request with `count` texts.
///
/// # Errors
///
/// [`EmbeddingError::Other`] if the body does not have `count` vectors.
pub fn read_embeddings(body: &[u8], count: usize) -> Result<EmbeddingResponse, EmbeddingError> {
    let nothing = Secret::default();
    let answer = embed::read(body, count, &nothing);
    answer.map_err(|error| nothing.redact_error(error).into())
}
