//! The plain functions of each API.

use bytes::Bytes;
use futures_util::{Stream, stream};
use neuron_provider_anthropic as anthropic;
use neuron_provider_ollama as ollama;
use neuron_provider_openai as openai;
use neuron_types::{CompletionRequest, CompletionResponse, ProviderError, StreamHandle};

/// An API's functions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vendor {
    pub(crate) write_request: fn(&CompletionRequest, bool) -> Result<Vec<u8>, ProviderError>,
    pub(crate) read_response: fn(&[u8]) -> Result<CompletionResponse, ProviderError>,
    pub(crate) read_stream: fn(Vec<Bytes>) -> StreamHandle,
    /// Whether a streamed message is made from its pieces. Where the API sends it whole at the end,
    /// a server can contradict itself.
    pub(crate) assembles: bool,
}

pub(crate) const ANTHROPIC: Vendor = Vendor {
    write_request: anthropic::wire::write_request,
    read_response: anthropic::wire::read_response,
    read_stream: |pieces| anthropic::wire::read_stream(body(pieces)),
    assembles: true,
};

pub(crate) const CHAT: Vendor = Vendor {
    write_request: openai::wire::write_request,
    read_response: openai::wire::read_response,
    read_stream: |pieces| openai::wire::read_stream(body(pieces)),
    assembles: true,
};

pub(crate) const RESPONSES: Vendor = Vendor {
    write_request: openai::wire::responses::write_request,
    read_response: openai::wire::responses::read_response,
    read_stream: |pieces| openai::wire::responses::read_stream(body(pieces)),
    assembles: false,
};

pub(crate) const OLLAMA: Vendor = Vendor {
    write_request: ollama::wire::write_request,
    read_response: ollama::wire::read_response,
    read_stream: |pieces| ollama::wire::read_stream(body(pieces)),
    assembles: true,
};

fn body(pieces: Vec<Bytes>) -> impl Stream<Item = Result<Bytes, ProviderError>> + Unpin + Send {
    stream::iter(pieces.into_iter().map(Ok))
}
