//! Provider for Anthropic's [Messages API](https://platform.claude.com/docs/en/api/messages). Implements
//! [`Provider`](neuron_model::Provider).
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
//! # Mapping
//!
//! - A block of an unknown type, or with unknown fields (such as a text with citations), is kept as
//!   [`ContentBlock::Raw`](neuron_model::ContentBlock::Raw). Such a block is sent back unchanged, except for the
//!   `file_id` of citations, which the API accepts only in responses.
//! - With [server-side fallbacks](https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback), another
//!   model may continue a response that the first model declined. The response then names the model that continued. Its
//!   message omits the first model's reasoning and tool calls, because the calls must not run and the API rejects both
//!   in the next request. A stream may have emitted them already.
//! - A tool call gets a new id if it has none, or if an earlier call of the response has the same id.
//! - A thinking budget is omitted in a turn that began without thinking, for example with another vendor's model. The API
//!   rejects the budget until the turn ends.
//! - After a pause ([`StopReason::PauseTurn`](neuron_model::StopReason::PauseTurn)), another provider or the user may
//!   continue the conversation. A call of the server's own tool that was open at the pause is then omitted, because the
//!   API rejects it without its result.
//! - [`TokenUsage::input_tokens`](neuron_model::TokenUsage::input_tokens) includes cached tokens, which the API reports
//!   separately.
//! - [`CompletionRequest::extra`](neuron_model::CompletionRequest::extra) is merged recursively into the body, and its
//!   `tools` are appended to the tools of the request. Use `extra` for Anthropic's own tools.
//! - The API searches [deferred tools](neuron_model::RequestRef::deferred_tools) itself, if the model is of Claude 4 or
//!   later. Results of the search that refer to tools which are not in the request are sent back without them, because
//!   the API rejects such references.
//! - System messages at the beginning of the conversation are added to the system prompt. Later system messages keep
//!   their position.
//! - A stream that ends before its stop reason is an error and never a short response. A broken connection before the
//!   event `message_stop` is an error too.
//! - The provider does not retry. [`ProviderError::is_retryable`](neuron_model::ProviderError::is_retryable) returns
//!   `true` for errors that may be retried.
//!
//! # Source files
//!
//! | file | content |
//! |---|---|
//! | `client.rs` | [`Anthropic`], with settings, headers and calls |
//! | `request.rs` | requests |
//! | `container.rs` | the code execution container of a request |
//! | `search.rs` | the API's search for deferred tools |
//! | `ids.rs` | ids of tool calls, including those of other vendors |
//! | `echo.rs` | blocks of earlier responses in a request |
//! | `open_calls.rs` | calls of the server's own tools that never got a result |
//! | `source.rs` | images and documents in a request |
//! | `thinking.rs` | the field `thinking` |
//! | `response.rs` | responses |
//! | `fallback.rs` | responses of two models |
//! | `stream.rs` | streams |
//! | `error.rs` | conversion of errors to [`ProviderError`](neuron_model::ProviderError) |
//! | `betas.rs` | beta features of requests |
//! | [`models`] | names of current models |
//! | [`wire`] | the mapping as plain functions, without HTTP |
//! | [`types`] | `neuron-model`, for programs that depend on this crate alone |
//!
//! [`neuron_http`] contains the HTTP endpoint, the decoder of server-sent events, and the redaction of keys.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod betas;
mod client;
mod container;
mod echo;
mod error;
mod fallback;
mod ids;
mod open_calls;
mod request;
mod response;
mod search;
mod source;
mod stream;
mod thinking;

pub mod models;
pub mod wire;

pub use client::{Anthropic, DEFAULT_MAX_TOKENS, DEFAULT_MODEL};
/// The crate `neuron-model`, with the messages, requests, traits and errors in this crate's API. The crate `neuron` has
/// the same items under the same names. The whole crate is re-exported, because a list of names would miss items of
/// later versions.
pub use neuron_model as types;
