//! The API's wire without HTTP: plain functions, for a transport of one's own, for recorded answers,
//! for fuzzing and benchmarks.

use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use neuron_http::http::header::HeaderMap;
use neuron_http::{AnswerStream, Rejection, Secret};
use neuron_types::{
    CompletionResponse, EmbeddingError, EmbeddingRequest, EmbeddingResponse, ProviderError,
    RequestRef, StreamHandle, WasmCompatSend,
};

use crate::client::DEFAULT_MODEL;
use crate::request::{self, Settings};
use crate::stream::ChatAnswer;
use crate::{embed, error, response};

/// Writes the body of a request, as [`Ollama`](crate::Ollama) does with its defaults.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] for what the API cannot express.
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

/// Reads the body of an answer that is not streamed.
///
/// # Errors
///
/// [`ProviderError::Other`] when it is not an answer.
pub fn read_response(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
    let nothing = Secret::default();
    response::read(body, &nothing).map_err(|error| nothing.redact_error(error))
}

/// Reads a streamed answer from its bytes, however they are cut.
pub fn read_stream<B>(body: B) -> StreamHandle
where
    B: Stream<Item = Result<Bytes, ProviderError>> + Unpin + WasmCompatSend + 'static,
{
    AnswerStream::from_bytes(body, ChatAnswer::default(), Secret::default()).into()
}

/// Makes an error of a response whose status is not a success.
#[must_use]
pub fn read_error(status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
    let rejection = Rejection::new(status, headers.clone(), body, Duration::ZERO);
    Secret::default().redact_error(error::from_rejection(&rejection))
}

/// Writes the body of a request for embeddings.
///
/// # Errors
///
/// [`EmbeddingError::InvalidRequest`] when it cannot be written.
pub fn write_embedding_request(request: &EmbeddingRequest) -> Result<Vec<u8>, EmbeddingError> {
    Ok(embed::write(request, Settings::default())?)
}

/// Reads the vectors of `count` texts.
///
/// # Errors
///
/// [`EmbeddingError::Other`] when there are not so many.
pub fn read_embeddings(body: &[u8], count: usize) -> Result<EmbeddingResponse, EmbeddingError> {
    let nothing = Secret::default();
    let answer = embed::read(body, count, &nothing);
    answer.map_err(|error| nothing.redact_error(error).into())
}
