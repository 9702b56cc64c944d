//! The wire without HTTP: plain functions, for a transport of one's own, for recorded answers, for
//! fuzzing and benchmarks. Those of the Responses API are in [`responses`].

use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use neuron_http::http::header::HeaderMap;
use neuron_http::{AnswerStream, Rejection, Secret};
use neuron_types::{
    CompletionResponse, EmbeddingError, EmbeddingRequest, EmbeddingResponse, ProviderError,
    RequestRef, StreamHandle, WasmCompatSend,
};

use crate::client::{DEFAULT_EMBEDDING_MODEL, DEFAULT_MODEL};
use crate::request::{self, Settings};
use crate::stream::ChatAnswer;
use crate::{embed, response};

/// Writes the body of a request to Chat Completions, as [`OpenAi`](crate::OpenAi) does with its
/// defaults.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] for what the API cannot express.
///
/// # Example
///
/// ```
/// use neuron_provider_openai::wire;
/// use neuron_provider_openai::types::{CompletionRequest, Message};
///
/// let request = CompletionRequest { messages: vec![Message::user("hi")], ..Default::default() };
/// let body = String::from_utf8(wire::write_request(request.view(), false)?)?;
/// assert!(body.ends_with(r#""messages":[{"role":"user","content":"hi"}]}"#));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn write_request(request: RequestRef<'_>, stream: bool) -> Result<Vec<u8>, ProviderError> {
    request::write(request, model_of(request), Settings::default(), stream)
}

/// Reads the body of an answer that is not streamed.
///
/// # Errors
///
/// [`ProviderError::Other`] when it is not a completion, and the error that it holds in place of one.
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
    Secret::default().redact_error(rejection.error())
}

/// Writes the body of a request for embeddings.
///
/// # Errors
///
/// [`EmbeddingError::InvalidRequest`] when it cannot be written.
pub fn write_embedding_request(request: &EmbeddingRequest) -> Result<Vec<u8>, EmbeddingError> {
    Ok(embed::write(request, DEFAULT_EMBEDDING_MODEL, &[])?)
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

fn model_of(request: RequestRef<'_>) -> &str {
    if request.model.is_empty() { DEFAULT_MODEL } else { request.model }
}

/// The same for the Responses API.
pub mod responses {
    use bytes::Bytes;
    use futures_core::Stream;
    use neuron_http::{AnswerStream, Secret};
    use neuron_types::{CompletionResponse, ProviderError, StreamHandle, WasmCompatSend};

    use super::{RequestRef, model_of};
    use crate::request::Settings;
    use crate::responses::stream::ResponseAnswer;
    use crate::responses::{request, response};

    /// Writes the body of a request.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] for what the API cannot express.
    pub fn write_request(request: RequestRef<'_>, stream: bool) -> Result<Vec<u8>, ProviderError> {
        request::write(request, model_of(request), Settings::default(), stream)
    }

    /// Reads the body of an answer that is not streamed.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Other`] when it is not a response; the vendor's error for one that failed.
    pub fn read_response(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
        let nothing = Secret::default();
        response::read(body, &nothing).map_err(|error| nothing.redact_error(error))
    }

    /// Reads a streamed answer from its bytes, however they are cut.
    pub fn read_stream<B>(body: B) -> StreamHandle
    where
        B: Stream<Item = Result<Bytes, ProviderError>> + Unpin + WasmCompatSend + 'static,
    {
        AnswerStream::from_bytes(body, ResponseAnswer::default(), Secret::default()).into()
    }
}
