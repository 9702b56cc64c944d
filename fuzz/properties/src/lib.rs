//! Properties of the code that parses a vendor's bytes. The properties must hold for any bytes.
//!
//! Each target is a function that takes bytes and panics if a property does not hold. The targets are used in two ways:
//!
//! - The tests of this package run each target with a fixed number of inputs from a seeded generator.
//! - cargo-fuzz (`fuzz/fuzz_targets`) runs one target as long as the user wants.
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

use crate::corpus::{all_streams, bedrock_events, bodies, errors, streams};
use crate::vendor::{ANTHROPIC, BEDROCK, CHAT, OLLAMA, RESPONSES};

/// A function that checks a property, with valid inputs for it.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target and of the folder with its corpus.
    pub name: &'static str,
    /// Checks an input. Panics if a property does not hold for these bytes.
    pub check: fn(&[u8]),
    /// Returns valid inputs. The fuzzers create other inputs from them.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 19] = [
    Target { name: "sse_decoder", check: framing::sse_decoder, seeds: all_streams },
    Target { name: "line_decoder", check: framing::line_decoder, seeds: all_streams },
    Target { name: "anthropic_stream", check: stream::anthropic, seeds: || streams(&ANTHROPIC) },
    Target { name: "chat_stream", check: stream::chat, seeds: || streams(&CHAT) },
    Target { name: "responses_stream", check: stream::responses, seeds: || streams(&RESPONSES) },
    Target { name: "ollama_stream", check: stream::ollama, seeds: || streams(&OLLAMA) },
    Target { name: "bedrock_stream", check: stream::bedrock, seeds: || streams(&BEDROCK) },
    Target { name: "bedrock_events", check: stream::bedrock_events, seeds: bedrock_events },
    Target { name: "anthropic_body", check: response::anthropic, seeds: || bodies(&ANTHROPIC) },
    Target { name: "chat_body", check: response::chat, seeds: || bodies(&CHAT) },
    Target { name: "responses_body", check: response::responses, seeds: || bodies(&RESPONSES) },
    Target { name: "ollama_body", check: response::ollama, seeds: || bodies(&OLLAMA) },
    Target { name: "bedrock_body", check: response::bedrock, seeds: || bodies(&BEDROCK) },
    Target { name: "anthropic_error", check: rejection::anthropic, seeds: errors },
    Target { name: "openai_error", check: rejection::openai, seeds: errors },
    Target { name: "ollama_error", check: rejection::ollama, seeds: errors },
    Target { name: "bedrock_error", check: rejection::bedrock, seeds: errors },
    Target { name: "openai_embeddings", check: embeddings::openai, seeds: corpus::embeddings },
    Target { name: "ollama_embeddings", check: embeddings::ollama, seeds: corpus::embeddings },
];

/// Maximum length of an error's text in bytes. An error must not contain the whole body of a response.
const MOST_ERROR_BYTES: usize = 17 * 1024;

/// Panics if the text of an error is longer than [`MOST_ERROR_BYTES`].
#[track_caller]
fn assert_short(error: &impl std::fmt::Display) {
    let length = error.to_string().len();
    assert!(length <= MOST_ERROR_BYTES, "an error of {length} bytes");
}
