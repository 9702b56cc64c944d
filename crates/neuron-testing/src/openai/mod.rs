//! OpenAI's APIs on the loopback interface, and their parts for tests without HTTP.
//!
//! [`OpenAiServer`] speaks Chat Completions, Responses and Embeddings. It is strict: it refuses
//! what the vendor refuses, with the vendor's words where they are known, so that a test with a bad
//! request fails here as it would there. A [`Dialect`] makes it one of the many servers that are
//! compatible but not quite.

mod chat;
mod check;
mod dialect;
mod embeddings;
mod error;
mod finish;
mod item;
mod item_stream;
mod message;
mod obfuscation;
mod responses;
mod server;
mod usage;

pub use chat::{chat_body, chat_bytes};
pub use check::{check_chat_request, check_embeddings_request, check_responses_request};
pub use dialect::Dialect;
pub use embeddings::embeddings_body;
pub use error::ApiError;
pub use finish::{finish_reason_from_wire, finish_reason_to_wire};
pub use responses::{responses_body, responses_bytes};
pub use server::{OpenAiApi, OpenAiCall, OpenAiServer, OpenAiServerBuilder};

/// When everything happens: answers are the same in every run.
const CREATED: u64 = 1_763_596_800;
