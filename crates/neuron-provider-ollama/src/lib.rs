//! Provider for [Ollama](https://ollama.com)'s native API. The models may run on the local machine, on another machine,
//! or in Ollama's cloud.
//!
//! Implements [`Provider`](neuron_model::Provider) and [`EmbeddingProvider`](neuron_model::EmbeddingProvider).
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
//! - Tool calls keep the ids of the server. A call without an id gets a UUID. An id is replaced if an earlier call of
//!   the response has it.
//! - Reasoning becomes [`ContentBlock::Thinking`](neuron_model::ContentBlock::Thinking) without a signature, and is
//!   sent back with the message. Signed reasoning comes from another vendor and is not sent.
//! - The unknown fields of a message are kept together as one [`ContentBlock::Raw`](neuron_model::ContentBlock::Raw). A
//!   tool call with unknown fields becomes a separate raw block. These blocks are sent back unchanged. Arguments that
//!   are not a JSON object are wrapped in an object, because the API rejects anything else.
//! - An entry of `tool_calls` without a name is not a call. The entry is kept as
//!   [`ContentBlock::Raw`](neuron_model::ContentBlock::Raw). An entry with a `function` is not sent back, because the
//!   API would reject the conversation.
//! - [`TokenUsage::input_tokens`](neuron_model::TokenUsage::input_tokens) is `prompt_eval_count`, which includes cached
//!   tokens. [`cache_read_tokens`](neuron_model::TokenUsage::cache_read_tokens) is `prompt_eval_cached_count`. Older
//!   servers do not send `prompt_eval_cached_count`. They also omit `prompt_eval_count` if the whole prompt was cached,
//!   and `input_tokens` is then 0.
//! - The API accepts images only as bytes, and documents only as text. A plain text document is appended to the
//!   message's text. Any other document and an image URL are errors.
//!   In the result of a tool, both become a short text such as `[image]`.
//! - The text of a failed tool result begins with `Error:`, because the API has no field for failures.
//! - A tool call cannot be forced, so [`ToolChoice::Required`](neuron_model::ToolChoice::Required) and
//!   [`Specific`](neuron_model::ToolChoice::Specific) are errors.
//! - [`CompletionRequest::extra`](neuron_model::CompletionRequest::extra) is merged recursively into the body, and
//!   overrides the request and the settings. The server ignores unknown top-level fields. Such a field of `extra` is
//!   therefore sent as an option: `{"seed": 7}` becomes `{"options": {"seed": 7}}`.
//!   [`EmbeddingRequest::extra`](neuron_model::EmbeddingRequest::extra) is sent in the same way. [`Ollama::options`]
//!   sets the options of all requests.
//! - A stream that ends before a line with `"done":true` is an error and never a short response.
//! - The provider does not retry. [`ProviderError::is_retryable`](neuron_model::ProviderError::is_retryable) returns
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
//! | `error.rs` | conversion of errors to [`ProviderError`](neuron_model::ProviderError) |
//! | [`models`] | names of common models |
//! | [`wire`] | the mapping as plain functions, without HTTP |
//! | [`types`] | `neuron-model`, for programs that depend on this crate alone |
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
/// The crate `neuron-model`, with the messages, requests, traits and errors in this crate's API. The crate `neuron` has
/// the same items under the same names. The whole crate is re-exported, because a list of names would miss items of
/// later versions.
pub use neuron_model as types;
