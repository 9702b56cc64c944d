//! OpenAI's APIs on the loopback interface, and their parts for tests without HTTP.
//!
//! [`OpenAiServer`] implements Chat Completions, Responses and Embeddings. It rejects the requests that OpenAI rejects,
//! with OpenAI's error texts where they are known. A test with an invalid request therefore fails as a call to OpenAI
//! would. With a [`Dialect`], the server emulates another server whose API differs from OpenAI's.

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
pub use responses::{responses_body, responses_bytes};
pub use server::{OpenAiApi, OpenAiCall, OpenAiServer, OpenAiServerBuilder};

/// The `created` time of every response, in seconds since the Unix epoch. The time is fixed so that responses are the
/// same in every run.
const CREATED: u64 = 1_763_596_800;
