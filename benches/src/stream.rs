//! Decodes streamed responses of 10,000 text deltas, with the providers and with hand-written code.

pub mod floor;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::{Stream, stream};
use neuron_provider_anthropic as anthropic;
use neuron_provider_ollama as ollama;
use neuron_provider_openai as openai;
use neuron_testing::{Wire, anthropic::sse_bytes, ollama::chat_bytes as ollama_bytes};
use neuron_testing::{openai::chat_bytes, openai::responses_bytes};
use neuron_types::{
    CompletionResponse, Message, ProviderError, StopReason, StreamEvent, StreamHandle, TokenUsage,
};

/// Number of text deltas in a response.
pub const PIECES: usize = 10_000;

/// A stream in a vendor's format, with the provider's decoder and a hand-written decoder.
#[derive(Debug)]
pub struct Vendor {
    /// Name of the API.
    pub name: &'static str,
    /// The bytes of the whole stream.
    pub bytes: &'static [u8],
    /// Decodes the stream with the provider.
    pub library: fn(Chunks) -> Heard,
    /// Decodes the stream with hand-written code.
    pub floor: fn(Chunks) -> Heard,
}

/// The result of decoding a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Heard {
    /// Number of decoded text deltas.
    pub pieces: usize,
    /// Text of the complete message.
    pub text: String,
}

/// Returns the stream of the same response in every vendor's format. The memory of the streams is never freed.
#[must_use]
pub fn vendors() -> [Vendor; 4] {
    let answer = answer();
    let wire = Wire::default();
    [
        Vendor {
            name: "anthropic",
            bytes: sse_bytes(&answer, PIECE_CHARS, &wire).leak(),
            library: |chunks| read(anthropic::wire::read_stream(body(chunks))),
            floor: floor::anthropic,
        },
        Vendor {
            name: "openai chat",
            bytes: chat_bytes(&answer, PIECE_CHARS, &wire, &Default::default()).leak(),
            library: |chunks| read(openai::wire::read_stream(body(chunks))),
            floor: floor::chat,
        },
        Vendor {
            name: "openai responses",
            bytes: responses_bytes(&answer, PIECE_CHARS, &wire).leak(),
            library: |chunks| read(openai::wire::responses::read_stream(body(chunks))),
            floor: floor::responses,
        },
        Vendor {
            name: "ollama",
            bytes: ollama_bytes(&answer, PIECE_CHARS, &wire, &Default::default()).leak(),
            library: |chunks| read(ollama::wire::read_stream(body(chunks))),
            floor: floor::ollama,
        },
    ]
}

/// Number of characters in a text delta, which is about the length of a token.
const PIECE_CHARS: usize = 4;

/// Returns a response with a typical text. Most of its deltas need no escapes in JSON.
fn answer() -> CompletionResponse {
    let prose = "The quick brown fox jumps over the lazy dog; it said “hello”.\nThen it slept. ";
    let text: String = prose.chars().cycle().take(PIECES * PIECE_CHARS).collect();
    CompletionResponse {
        id: "msg_01XFDUDYJgAACzvnptvVoYEL".into(),
        model: "model-with-a-name-4-5".into(),
        message: Message::assistant(text),
        usage: TokenUsage { input_tokens: 25, output_tokens: PIECES, ..Default::default() },
        stop_reason: StopReason::EndTurn,
    }
}

/// An iterator over bytes in chunks of a fixed size, like the reads of a connection.
///
/// Unlike the bytes of a connection, the chunks are not reference-counted. With chunks of one byte, reference counting
/// would take longer than decoding, and the decoders could not be compared.
#[derive(Debug, Clone)]
pub struct Chunks {
    rest: &'static [u8],
    size: usize,
}

impl Chunks {
    /// Splits `bytes` into chunks of `size` bytes. Zero means 1.
    #[must_use]
    pub fn new(bytes: &'static [u8], size: usize) -> Self {
        Self { rest: bytes, size: size.max(1) }
    }
}

impl Iterator for Chunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let (chunk, rest) = self.rest.split_at(self.size.min(self.rest.len()));
        self.rest = rest;
        (!chunk.is_empty()).then(|| Bytes::from_static(chunk))
    }
}

/// Converts chunks to a stream that is always ready and never fails.
fn body(chunks: Chunks) -> impl Stream<Item = Result<Bytes, ProviderError>> + Unpin + Send {
    stream::iter(chunks.map(Ok))
}

/// Reads a stream to its end without a runtime. The stream must always be ready. Events are dropped as soon as they are
/// received.
fn read(handle: StreamHandle) -> Heard {
    let mut receiver = handle.receiver;
    let mut context = Context::from_waker(Waker::noop());
    let mut heard = Heard { pieces: 0, text: String::new() };
    while let Poll::Ready(Some(event)) = Pin::new(&mut receiver).poll_next(&mut context) {
        match event {
            StreamEvent::TextDelta(piece) => {
                heard.pieces += 1;
                std::hint::black_box(piece);
            }
            StreamEvent::ResponseComplete(response) => heard.text = response.message.text(),
            StreamEvent::Error(error) => panic!("the stream breaks: {error}"),
            _ => {}
        }
    }
    heard
}
