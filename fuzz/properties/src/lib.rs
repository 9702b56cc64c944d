//! The properties of all code that parses a vendor's bytes. They must hold for any bytes.
//!
//! Each target is a plain function of bytes that panics if a property does not hold. Two runners call the targets. The
//! first is a test in every run of the tests, with a fixed number of inputs from a seeded generator. The second is
//! cargo-fuzz (`fuzz/fuzz_targets`), which runs as long as the user wants.
//!
//! | file | properties of |
//! |---|---|
//! | `framing.rs` | server-sent events and lines of JSON |
//! | `stream.rs` | streamed responses |
//! | `response.rs` | whole responses |
//! | `rejection.rs` | errors by status |
//! | `embeddings.rs` | vectors |
//! | `echo.rs` | parsed responses that are sent back |
//! | `corpus.rs` | valid inputs |

pub mod embeddings;
pub mod framing;
pub mod rejection;
pub mod response;
pub mod stream;

mod corpus;
mod echo;
mod pieces;
mod vendor;

use crate::corpus::{all_streams, bodies, errors, streams};
use crate::vendor::{ANTHROPIC, CHAT, OLLAMA, RESPONSES};

/// A target for a fuzzer, with its property and valid inputs.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the target and of its corpus.
    pub name: &'static str,
    /// Panics if a property does not hold for these bytes.
    pub check: fn(&[u8]),
    /// Returns valid inputs, from which other inputs are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 15] = [
    Target { name: "sse_decoder", check: framing::sse_decoder, seeds: all_streams },
    Target { name: "line_decoder", check: framing::line_decoder, seeds: all_streams },
    Target { name: "anthropic_stream", check: stream::anthropic, seeds: || streams(&ANTHROPIC) },
    Target { name: "chat_stream", check: stream::chat, seeds: || streams(&CHAT) },
    Target { name: "responses_stream", check: stream::responses, seeds: || streams(&RESPONSES) },
    Target { name: "ollama_stream", check: stream::ollama, seeds: || streams(&OLLAMA) },
    Target { name: "anthropic_body", check: response::anthropic, seeds: || bodies(&ANTHROPIC) },
    Target { name: "chat_body", check: response::chat, seeds: || bodies(&CHAT) },
    Target { name: "responses_body", check: response::responses, seeds: || bodies(&RESPONSES) },
    Target { name: "ollama_body", check: response::ollama, seeds: || bodies(&OLLAMA) },
    Target { name: "anthropic_error", check: rejection::anthropic, seeds: errors },
    Target { name: "openai_error", check: rejection::openai, seeds: errors },
    Target { name: "ollama_error", check: rejection::ollama, seeds: errors },
    Target { name: "openai_embeddings", check: embeddings::openai, seeds: corpus::embeddings },
    Target { name: "ollama_embeddings", check: embeddings::ollama, seeds: corpus::embeddings },
];

/// Maximum length of an error's text in bytes, for any input.
const MOST_ERROR_BYTES: usize = 17 * 1024;

#[track_caller]
fn assert_short(error: &impl std::fmt::Display) {
    let length = error.to_string().len();
    assert!(length <= MOST_ERROR_BYTES, "an error of {length} bytes");
}
