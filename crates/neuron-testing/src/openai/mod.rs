//! OpenAI's APIs on the loopback interface, and their parts for tests without HTTP.
//!
//! [`OpenAiServer`] implements Chat Completions, Responses and Embeddings. It is strict. It rejects the requests that
//! the vendor rejects, with the vendor's error texts where they are known, so that a test with a bad request fails as
//! it would with the vendor. A [`Dialect`] makes it emulate one of the many servers that are not fully compatible.

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

/// The fixed time of every response, so that responses are the same in every run.
const CREATED: u64 = 1_763_596_800;
