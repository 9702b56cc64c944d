//! Anthropic's [Messages API](https://platform.claude.com/docs/en/api/messages) as a neuron
//! [`Provider`](neuron_types::Provider).
//!
//! ```no_run
//! use neuron_provider_anthropic::Anthropic;
//! use neuron_provider_anthropic::types::{CompletionRequest, Message, Provider};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = Anthropic::from_env()?;
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
//! - Blocks that neuron does not model, and known blocks with fields that it does not model (a text
//!   with citations), are kept as [`ContentBlock::Raw`](neuron_types::ContentBlock::Raw) and go back
//!   as they came, without the `file_id` of citations, which requests do not have.
//! - After a [server-side fallback](https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback)
//!   the response names the model that answered. Its message omits reasoning and tool calls of the
//!   model that declined, because they must neither run nor go back. A stream may have announced them.
//! - A tool call gets an id if it has none, or if an earlier call of the answer has the same id.
//! - [`TokenUsage::input_tokens`](neuron_types::TokenUsage::input_tokens) are all prompt tokens,
//!   cached ones included; the API reports them apart.
//! - [`CompletionRequest::extra`](neuron_types::CompletionRequest::extra) is merged deep into the
//!   body, and its `tools` are appended: the way to the vendor's own tools.
//! - System messages at the beginning of the conversation join the system prompt; later ones are
//!   sent where they stand.
//! - A stream that ends before its stop reason is an error, never a short answer. A connection that
//!   breaks before `message_stop` is an error too.
//! - Nothing is retried: [`ProviderError::is_retryable`](neuron_types::ProviderError::is_retryable)
//!   says what may be.
//!
//! # Where to look
//!
//! | file | what it knows |
//! |---|---|
//! | `client.rs` | [`Anthropic`]: settings, headers, the two calls |
//! | `request.rs` | our request as the API's JSON |
//! | `ids.rs` | the ids of tool calls, those of other vendors too |
//! | `echo.rs` | blocks of earlier answers in a request |
//! | `response.rs` | the API's JSON as our response |
//! | `fallback.rs` | answers of two models |
//! | `stream.rs` | the API's events as ours |
//! | `error.rs` | status, headers and body as a [`ProviderError`](neuron_types::ProviderError) |
//! | `betas.rs` | the beta features that a request uses |
//! | [`models`] | the names of current models |
//! | [`wire`] | all of these as plain functions, without HTTP |
//! | [`types`] | `neuron-types`: a program with this provider alone depends on no other crate of neuron |
//!
//! What lies below (the client, server-sent events, keys that never show) is [`neuron_http`]'s.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod betas;
mod client;
mod echo;
mod error;
mod fallback;
mod ids;
mod metadata;
mod request;
mod response;
mod stream;

pub mod models;
pub mod wire;

pub use client::{Anthropic, DEFAULT_MAX_TOKENS, DEFAULT_MODEL};
/// The messages, requests, traits and errors that the API of this crate consists of, under the name that
/// they have in the crate `neuron`. A list of their names would miss those of the next version.
pub use neuron_types as types;
