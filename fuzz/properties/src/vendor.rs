//! [`Vendor`], the functions of a provider and of its loopback server that the properties use.

use bytes::Bytes;
use futures_util::{Stream, stream};
use neuron_provider_anthropic as anthropic;
use neuron_provider_bedrock as bedrock;
use neuron_provider_ollama as ollama;
use neuron_provider_openai as openai;
use neuron_testing::openai as openai_server;
use neuron_testing::{
    Wire, anthropic as anthropic_server, bedrock as bedrock_server, ollama as ollama_server,
};
use neuron_types::{CompletionResponse, ProviderError, RequestRef, StreamHandle};
use serde_json::Value;

/// Encodes a response as the bytes of a stream. The number is the length of a delta in characters.
type WriteStream = fn(&CompletionResponse, usize, &Wire) -> Vec<u8>;

/// The parsers and encoders of an API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vendor {
    /// Encodes a request with the provider. The flag requests a stream.
    pub(crate) write_request: fn(RequestRef<'_>, bool) -> Result<Vec<u8>, ProviderError>,
    /// Parses a whole response with the provider.
    pub(crate) read_response: fn(&[u8]) -> Result<CompletionResponse, ProviderError>,
    /// Parses the pieces of a streamed response with the provider.
    pub(crate) read_stream: fn(Vec<Bytes>) -> StreamHandle,
    /// Set if the provider assembles the message of a stream from its deltas. Otherwise the API sends the whole message
    /// at the end, and a broken input may contain another message than its deltas.
    pub(crate) assembles: bool,
    /// Encodes a whole response with the loopback server.
    pub(crate) write_response: fn(&CompletionResponse) -> Value,
    /// Encode a streamed response with the loopback server. Contains one function for each dialect of the API.
    pub(crate) write_stream: &'static [WriteStream],
    /// Returns the bytes of an error event within a stream.
    pub(crate) stream_error: fn() -> Vec<u8>,
}

pub(crate) const ANTHROPIC: Vendor = Vendor {
    write_request: anthropic::wire::write_request,
    read_response: anthropic::wire::read_response,
    read_stream: |pieces| anthropic::wire::read_stream(body(pieces)),
    assembles: true,
    write_response: anthropic_server::json_body,
    write_stream: &[anthropic_server::sse_bytes],
    stream_error: || {
        b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n".to_vec()
    },
};

pub(crate) const CHAT: Vendor = Vendor {
    write_request: openai::wire::write_request,
    read_response: openai::wire::read_response,
    read_stream: |pieces| openai::wire::read_stream(body(pieces)),
    assembles: true,
    write_response: |answer| openai_server::chat_body(answer, &openai_server::Dialect::default()),
    write_stream: &[
        |answer, chars, wire| {
            openai_server::chat_bytes(answer, chars, wire, &openai_server::Dialect::default())
        },
        |answer, chars, wire| {
            let odd = openai_server::Dialect::default().without_call_index();
            openai_server::chat_bytes(answer, chars, wire, &odd.later_ids_empty().without_done())
        },
    ],
    stream_error: || {
        b"data: {\"error\":{\"message\":\"no\",\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\n".to_vec()
    },
};

pub(crate) const RESPONSES: Vendor = Vendor {
    write_request: openai::wire::responses::write_request,
    read_response: openai::wire::responses::read_response,
    read_stream: |pieces| openai::wire::responses::read_stream(body(pieces)),
    assembles: false,
    write_response: openai_server::responses_body,
    write_stream: &[openai_server::responses_bytes],
    stream_error: || {
        b"event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"no\",\"param\":null}\n\n".to_vec()
    },
};

pub(crate) const OLLAMA: Vendor = Vendor {
    write_request: ollama::wire::write_request,
    read_response: ollama::wire::read_response,
    read_stream: |pieces| ollama::wire::read_stream(body(pieces)),
    assembles: true,
    write_response: |answer| ollama_server::chat_body(answer, &ollama_server::Dialect::default()),
    write_stream: &[|answer, chars, wire| {
        ollama_server::chat_bytes(answer, chars, wire, &ollama_server::Dialect::default())
    }],
    stream_error: || b"{\"error\":\"server busy\"}\n".to_vec(),
};

pub(crate) const BEDROCK: Vendor = Vendor {
    write_request: |request, _| bedrock::wire::write_request(request),
    read_response: bedrock::wire::read_response,
    read_stream: |pieces| bedrock::wire::read_stream(body(pieces)),
    assembles: true,
    write_response: |answer| bedrock_server::json_body(answer, &bedrock_route()),
    write_stream: &[|answer, chars, wire| {
        bedrock_server::stream_bytes(answer, chars, wire, &bedrock_route())
    }],
    stream_error: || {
        let headers = [(":exception-type", "throttlingException"), (":message-type", "exception")];
        bedrock_server::frame(&headers, br#"{"message":"Too many requests"}"#)
    },
};

/// Returns the path of a request to the default model.
fn bedrock_route() -> bedrock_server::Route {
    let path = format!("/model/{}/converse-stream", bedrock::DEFAULT_MODEL);
    bedrock_server::Route::parse(&path).expect("a path of the API")
}

/// Returns the pieces of a body as a stream without errors.
fn body(pieces: Vec<Bytes>) -> impl Stream<Item = Result<Bytes, ProviderError>> + Unpin + Send {
    stream::iter(pieces.into_iter().map(Ok))
}
