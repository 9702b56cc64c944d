//! Functions that serialise requests and parse responses, without HTTP. Use them for other transports, recorded
//! responses, fuzzing and benchmarks.
//!
//! The functions directly in this module are for Chat Completions and embeddings. The functions in [`responses`] are
//! for the Responses API. Token counts are parsed as those of OpenAI.

use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use neuron_http::http::header::HeaderMap;
use neuron_http::{AnswerStream, Rejection, Secret};
use neuron_model::{
    CompletionResponse, EmbeddingError, EmbeddingRequest, EmbeddingResponse, ProviderError,
    RequestRef, StreamHandle, WasmCompatSend,
};

use crate::client::{DEFAULT_EMBEDDING_MODEL, DEFAULT_MODEL};
use crate::dialect::Vendor;
use crate::request::{self, Settings};
use crate::stream::ChatDecoder;
use crate::{embed, response};

/// Serialises a request of Chat Completions with the default settings of [`OpenAi`](crate::OpenAi). If `stream` is set,
/// the body asks for a streamed response.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has content that the API cannot express.
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
    request::write(request, request.model_or(DEFAULT_MODEL), Settings::default(), stream)
}

/// Parses the body of a response of Chat Completions that is not streamed.
///
/// # Errors
///
/// - [`ProviderError::Other`] if the body is not a completion.
/// - The server's error if the body contains an error instead of a completion.
pub fn read_response(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
    let nothing = Secret::default();
    response::read(body, &nothing, Vendor::default()).map_err(|error| nothing.redact_error(error))
}

/// Decodes a streamed response of Chat Completions from byte chunks of any size.
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
    Secret::default().redact_error(rejection.error())
}

/// Serialises a request for embeddings.
///
/// # Errors
///
/// [`EmbeddingError::InvalidRequest`] if the request cannot be serialised.
pub fn write_embedding_request(request: &EmbeddingRequest) -> Result<Vec<u8>, EmbeddingError> {
    Ok(embed::write(request, DEFAULT_EMBEDDING_MODEL, &[])?)
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

/// Functions that serialise requests and parse responses of the Responses API, without HTTP.
pub mod responses {
    use bytes::Bytes;
    use futures_core::Stream;
    use neuron_http::{AnswerStream, Secret};
    use neuron_model::{CompletionResponse, ProviderError, StreamHandle, WasmCompatSend};

    use super::{DEFAULT_MODEL, RequestRef};
    use crate::request::Settings;
    use crate::responses::stream::ResponsesDecoder;
    use crate::responses::{request, response};

    /// Serialises a request of the Responses API with the default settings of [`OpenAi`](crate::OpenAi). If `stream` is
    /// set, the body asks for a streamed response.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] if the request has content that the API cannot express.
    pub fn write_request(request: RequestRef<'_>, stream: bool) -> Result<Vec<u8>, ProviderError> {
        request::write(request, request.model_or(DEFAULT_MODEL), Settings::default(), stream)
    }

    /// Parses the body of a response of the Responses API that is not streamed.
    ///
    /// # Errors
    ///
    /// - [`ProviderError::Other`] if the body is not a response of the API.
    /// - The server's error if the response has failed, or if the body contains an error instead of a response.
    pub fn read_response(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
        let nothing = Secret::default();
        response::read(body, &nothing).map_err(|error| nothing.redact_error(error))
    }

    /// Decodes a streamed response of the Responses API from byte chunks of any size.
    pub fn read_stream<B>(body: B) -> StreamHandle
    where
        B: Stream<Item = Result<Bytes, ProviderError>> + Unpin + WasmCompatSend + 'static,
    {
        AnswerStream::from_bytes(body, ResponsesDecoder::default(), Secret::default()).into()
    }
}
