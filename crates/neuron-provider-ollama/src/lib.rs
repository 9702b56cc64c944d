//! [Ollama](https://ollama.com)'s native API as a neuron [`Provider`](neuron_types::Provider) and
//! [`EmbeddingProvider`](neuron_types::EmbeddingProvider): models on this machine or another, or in
//! Ollama's cloud.
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
//! # What comes and what goes
//!
//! - Tool calls get the server's ids; a UUID where it gives none, and another id where it gives one
//!   twice.
//! - Reasoning is [`ContentBlock::Thinking`](neuron_types::ContentBlock::Thinking) without a
//!   signature, and goes back with the message. Signed reasoning is another vendor's and stays here.
//! - Fields of a message that neuron does not model are kept as one
//!   [`ContentBlock::Raw`](neuron_types::ContentBlock::Raw), and so are tool calls with such fields;
//!   they go back as they came. Arguments that are not a JSON object go back in one, because the API
//!   takes nothing else.
//! - An entry of `tool_calls` without a name is not a call. It is kept as
//!   [`ContentBlock::Raw`](neuron_types::ContentBlock::Raw), and does not go back if it has a
//!   `function`: the API would refuse the conversation.
//! - [`TokenUsage::input_tokens`](neuron_types::TokenUsage::input_tokens) is `prompt_eval_count`, which
//!   includes cached tokens, and
//!   [`cache_read_tokens`](neuron_types::TokenUsage::cache_read_tokens) is `prompt_eval_cached_count`.
//!   Older servers do not send the second, and leave the first out if the whole prompt was cached: the
//!   prompt then counts as 0 tokens.
//! - The API takes images as bytes only, and no documents but text: a plain text document joins the
//!   message's text, and what cannot be sent is an error.
//! - Results of tools that failed begin with `Error:`, because the API has no field for that.
//! - A tool call cannot be forced: [`ToolChoice::Required`](neuron_types::ToolChoice::Required) and
//!   [`Specific`](neuron_types::ToolChoice::Specific) are errors.
//! - [`CompletionRequest::extra`](neuron_types::CompletionRequest::extra) is merged deep into the
//!   body, and replaces what the request and the settings say. A field that the API does not have at
//!   the top, where the server would ignore it, is an option: `{"seed": 7}` is
//!   `{"options": {"seed": 7}}`. The same holds for
//!   [`EmbeddingRequest::extra`](neuron_types::EmbeddingRequest::extra). [`Ollama::options`] sets the
//!   options of all requests.
//! - A stream that ends before a line with `"done":true` is an error, never a short answer.
//! - Nothing is retried: [`ProviderError::is_retryable`](neuron_types::ProviderError::is_retryable)
//!   says what may be.
//!
//! # Where to look
//!
//! | file | what it knows |
//! |---|---|
//! | `client.rs` | [`Ollama`]: settings, headers, the calls |
//! | `host.rs` | what `OLLAMA_HOST` may be |
//! | `extra.rs` | the place of the caller's own fields |
//! | `request.rs` | our request as the API's JSON |
//! | `messages.rs` | our conversation as the API's messages |
//! | `tools.rs` | our tools as the API's JSON |
//! | `response.rs` | the API's JSON as our response |
//! | `stream.rs` | the API's lines as our events |
//! | `embed.rs` | embeddings |
//! | `error.rs` | status and body as a [`ProviderError`](neuron_types::ProviderError) |
//! | [`models`] | the names of common models |
//! | [`wire`] | all of these as plain functions, without HTTP |
//! | [`types`] | `neuron-types`: a program with this provider alone depends on no other crate of neuron |
//!
//! What lies below (the client, lines of JSON, keys that never show) is [`neuron_http`]'s.

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
/// The messages, requests, traits and errors that the API of this crate consists of, under the name that
/// they have in the crate `neuron`. A list of their names would miss those of the next version.
pub use neuron_types as types;
