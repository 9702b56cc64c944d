//! Functions that serialise requests and parse responses of Google AI, without HTTP. Use them for other transports,
//! recorded responses, fuzzing and benchmarks.

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
use crate::embed::Method;
use crate::model::GOOGLE_AI;
use crate::parts::Origin;
use crate::stream::ChunkDecoder;
use crate::{embed, error, request, response};

/// Serialises a request to Google AI. The body is the same for a whole and for a streamed response. The name of the
/// model is not a part of the body, but the body depends on the model.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has content or a setting that the API cannot express, or if its
/// `extra` is not an object or sets `stream`.
///
/// # Example
///
/// ```
/// use neuron_provider_gemini::wire;
/// use neuron_provider_gemini::types::{CompletionRequest, Message};
///
/// let request = CompletionRequest { messages: vec![Message::user("hi")], ..Default::default() };
/// let body = String::from_utf8(wire::write_request(request.view())?)?;
/// assert_eq!(body, r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn write_request(request: RequestRef<'_>) -> Result<Vec<u8>, ProviderError> {
    request::write(request, request.model_or(DEFAULT_MODEL), GOOGLE_AI)
}

/// Returns the server of a response of Google AI. The model that was asked is not known here.
fn origin() -> Origin {
    Origin::new(GOOGLE_AI, "")
}

/// Parses the body of a response that is not streamed. The response does not record which model signed its parts.
/// [`Gemini`](crate::Gemini) records it, so that another model does not get the signatures. A call of a tool whose name
/// the API rejects has the name in the request, while [`Gemini`](crate::Gemini) returns the name of the tool.
///
/// # Errors
///
/// The server's error if the body is an error. [`ProviderError::Other`] if the body is neither an error nor a complete
/// response of the API.
pub fn read_response(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
    let nothing = Secret::default();
    response::read(body, &nothing, origin()).map_err(|error| nothing.redact_error(error))
}

/// Decodes a streamed response from byte chunks of any size.
pub fn read_stream<B>(body: B) -> StreamHandle
where
    B: Stream<Item = Result<Bytes, ProviderError>> + Unpin + WasmCompatSend + 'static,
{
    AnswerStream::from_bytes(body, ChunkDecoder::new(origin()), Secret::default()).into()
}

/// Converts an HTTP response whose status is not a success into an error.
#[must_use]
pub fn read_error(status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
    let rejection = Rejection::new(status, headers.clone(), body, Duration::ZERO);
    Secret::default().redact_error(error::from_rejection(&rejection))
}

/// Serialises a request for embeddings. The API accepts at most 100 texts. [`Gemini`](crate::Gemini) splits a larger
/// request, and this function does not.
///
/// # Errors
///
/// [`EmbeddingError::InvalidRequest`] if the request cannot be serialised, or if its `extra` has a field that is not
/// allowed.
pub fn write_embedding_request(request: &EmbeddingRequest) -> Result<Vec<u8>, EmbeddingError> {
    Ok(embed::write(Method::GoogleBatch, request, &request.input)?)
}

/// Parses the response to an embedding request with `count` texts. The name of the model is empty, because the response
/// does not contain it.
///
/// # Errors
///
/// [`EmbeddingError::Other`] if the body does not have `count` vectors.
pub fn read_embeddings(body: &[u8], count: usize) -> Result<EmbeddingResponse, EmbeddingError> {
    let nothing = Secret::default();
    let answer = embed::read(Method::GoogleBatch, body, count, &nothing);
    answer.map_err(|error| nothing.redact_error(error).into())
}
