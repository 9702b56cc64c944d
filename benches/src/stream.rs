//! The decoding of streamed responses of 10,000 pieces of text, by the providers and by hand-written code.

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

/// Number of pieces in a response's text.
pub const PIECES: usize = 10_000;

/// A vendor's stream, with two functions that decode it.
#[derive(Debug)]
pub struct Vendor {
    /// The API's name.
    pub name: &'static str,
    /// The whole stream.
    pub bytes: &'static [u8],
    /// Decodes the stream with the provider.
    pub library: fn(Chunks) -> Heard,
    /// Decodes the stream with hand-written code.
    pub floor: fn(Chunks) -> Heard,
}

/// The pieces and the text that a reader received.
#[derive(Debug, PartialEq, Eq)]
pub struct Heard {
    /// Number of pieces of text.
    pub pieces: usize,
    /// The text of the finished message.
    pub text: String,
}

/// Returns one response in every vendor's format. The bytes are leaked, so they live until the program ends.
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

/// The approximate length of a token.
const PIECE_CHARS: usize = 4;

/// Returns a response with a typical text. Most of its pieces need no escapes in JSON.
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

/// Bytes in pieces of one size, as a connection delivers them.
///
/// Unlike the bytes of a connection, they are not reference-counted. The counting would cost more than the decoding of
/// a byte, and would hide the difference between both sides.
#[derive(Debug, Clone)]
pub struct Chunks {
    rest: &'static [u8],
    size: usize,
}

impl Chunks {
    /// Cuts bytes into pieces of this size.
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

fn body(chunks: Chunks) -> impl Stream<Item = Result<Bytes, ProviderError>> + Unpin + Send {
    stream::iter(chunks.map(Ok))
}

/// Reads a stream that is always ready. Each event is received and dropped, as a user does.
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
