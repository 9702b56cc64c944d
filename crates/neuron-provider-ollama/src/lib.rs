//! Provider for [Ollama](https://ollama.com)'s native API, for models on this machine, on another machine, or in
//! Ollama's cloud.
//!
//! Implements [`Provider`](neuron_types::Provider) and [`EmbeddingProvider`](neuron_types::EmbeddingProvider).
//!
//! ```no_run
//! use neuron_provider_ollama::Ollama;
//! use neuron_provider_ollama::types::{CompletionRequest, Message, Provider};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = Ollama::from_env()?.model("llama3.2");
//! let request = CompletionRequest {
//!     messages: vec![Message::user("What is Rust?")],
//!     max_tokens: Some(256),
//!     ..Default::default()
//! };
//! let response = provider.complete(request).await?;
//! println!("{}", response.message.text());
//! # Ok(())
//! # }
//! ```
//!
//! # Mapping
//!
//! - Tool calls have the server's ids. A call without an id gets a UUID, and a repeated id is replaced.
//! - Reasoning is [`ContentBlock::Thinking`](neuron_types::ContentBlock::Thinking) without a signature, and is sent
//!   back with the message. Signed reasoning belongs to another vendor and is not sent.
//! - Unknown fields of a message are kept as one [`ContentBlock::Raw`](neuron_types::ContentBlock::Raw), and so are
//!   tool calls with unknown fields. They are sent back unchanged. Arguments that are not a JSON object are wrapped in
//!   an object, because the API accepts nothing else.
//! - An entry of `tool_calls` without a name is not a call. It is kept as
//!   [`ContentBlock::Raw`](neuron_types::ContentBlock::Raw). It is not sent back if it has a `function`, because the
//!   API would reject the conversation.
//! - [`TokenUsage::input_tokens`](neuron_types::TokenUsage::input_tokens) is `prompt_eval_count`, which includes cached
//!   tokens, and [`cache_read_tokens`](neuron_types::TokenUsage::cache_read_tokens) is `prompt_eval_cached_count`.
//!   Older servers do not send the second, and omit the first if the whole prompt was cached. The input then counts as
//!   0 tokens.
//! - The API accepts images only as bytes, and documents only as text. A plain text document is appended to the
//!   message's text. Other documents and image URLs are errors.
//! - Failed tool results begin with `Error:`, because the API has no field for that.
//! - A tool call cannot be forced, so [`ToolChoice::Required`](neuron_types::ToolChoice::Required) and
//!   [`Specific`](neuron_types::ToolChoice::Specific) are errors.
//! - [`CompletionRequest::extra`](neuron_types::CompletionRequest::extra) is merged recursively into the body, and
//!   overrides the request and the settings. A field that is not a top-level field of the API, where the server would
//!   ignore it, becomes an option. For example `{"seed": 7}` is sent as `{"options": {"seed": 7}}`. The same holds for
//!   [`EmbeddingRequest::extra`](neuron_types::EmbeddingRequest::extra). [`Ollama::options`] sets the options of all
//!   requests.
//! - A stream that ends before a line with `"done":true` is an error and never a short response.
//! - The provider does not retry. [`ProviderError::is_retryable`](neuron_types::ProviderError::is_retryable) returns
//!   `true` for errors that may be retried.
//!
//! # Source files
//!
//! | file | content |
//! |---|---|
//! | `client.rs` | [`Ollama`], with settings, headers and calls |
//! | `host.rs` | parsing of `OLLAMA_HOST` |
//! | `extra.rs` | the position of the caller's extra fields |
//! | `request.rs` | requests |
//! | `messages.rs` | messages of requests |
//! | `tools.rs` | tools of requests |
//! | `response.rs` | responses |
//! | `stream.rs` | streams |
//! | `embed.rs` | embeddings |
//! | `error.rs` | conversion of errors to [`ProviderError`](neuron_types::ProviderError) |
//! | [`models`] | names of common models |
//! | [`wire`] | the mapping as plain functions, without HTTP |
//! | [`types`] | `neuron-types`, for programs that depend on this crate alone |
//!
//! [`neuron_http`] contains the HTTP endpoint, the decoder of JSON lines, and the redaction of keys.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod client;
mod embed;
mod error;
mod extra;
mod host;
mod messages;
mod request;
mod response;
mod stream;
mod tools;

pub mod models;
pub mod wire;

pub use client::{DEFAULT_MODEL, Ollama};
pub use embed::DEFAULT_EMBEDDING_MODEL;
/// The messages, requests, traits and errors in the API of this crate, under their names in the crate `neuron`. The
/// whole crate is re-exported, because a list of names would miss those of later versions.
pub use neuron_types as types;
