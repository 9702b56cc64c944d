//! Ollama's own API on the loopback interface, and its parts for tests without HTTP.
//!
//! [`OllamaServer`] rejects the requests that Ollama rejects, with Ollama's error texts. Ollama rejects less than other
//! vendors. It accepts unknown fields and options, inconsistent conversations, and any tool.

mod chat;
mod check;
mod dialect;
mod done_reason;
mod embeddings;
mod error;
mod server;

pub use chat::{chat_body, chat_bytes};
pub use check::{check_chat_request, check_embed_request};
pub use dialect::Dialect;
pub use embeddings::embeddings_body;
pub use error::ApiError;
pub use server::{OllamaApi, OllamaCall, OllamaServer, OllamaServerBuilder};

/// The `created_at` time of every response. The time is fixed so that responses are the same in every run.
const CREATED_AT: &str = "2025-11-20T12:00:00.123456789Z";

/// The `total_duration` of every response, in nanoseconds. This and the other durations are fixed so that responses are
/// the same in every run.
const TOTAL_DURATION: u64 = 5_000_000_000;
const LOAD_DURATION: u64 = 1_000_000_000;
const PROMPT_EVAL_DURATION: u64 = 500_000_000;
const EVAL_DURATION: u64 = 3_000_000_000;
