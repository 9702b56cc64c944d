//! What must hold of everything that parses a vendor's bytes, whatever the bytes are.
//!
//! Each target is a plain function of bytes that panics when a property does not hold. Two runners
//! drive them: a test with a fixed number of inputs from a seeded generator, in every run of the
//! tests; and cargo-fuzz, for as long as one likes (`fuzz/fuzz_targets`).
//!
//! | file | whose properties |
//! |---|---|
//! | `framing.rs` | server-sent events and lines of JSON |
//! | `stream.rs` | streamed answers |
//! | `response.rs` | whole answers |
//! | `rejection.rs` | errors by status |
//! | `embeddings.rs` | vectors |
//! | `echo.rs` | what was read, sent back |
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

/// A target's name, which is also that of its corpus; the property; valid inputs for it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name.
    pub name: &'static str,
    /// Panics when something does not hold of these bytes.
    pub check: fn(&[u8]),
    /// Returns valid inputs, from which others are made.
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

/// The most bytes that the text of an error may have, whatever a server wrote.
const MOST_ERROR_BYTES: usize = 17 * 1024;

#[track_caller]
fn assert_short(error: &impl std::fmt::Display) {
    let length = error.to_string().len();
    assert!(length <= MOST_ERROR_BYTES, "an error of {length} bytes");
}
