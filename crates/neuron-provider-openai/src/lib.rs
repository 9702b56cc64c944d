//! Provider for OpenAI's Chat Completions, Responses and Embeddings APIs, and for compatible servers.
//!
//! Implements [`Provider`](neuron_model::Provider) and [`EmbeddingProvider`](neuron_model::EmbeddingProvider).
//!
//! ```no_run
//! use neuron_provider_openai::OpenAi;
//! use neuron_provider_openai::types::{CompletionRequest, Message, Provider};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = OpenAi::from_env()?;
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
//! # Choice of the API
//!
//! The default is Chat Completions, which compatible servers support too. [`OpenAi::responses_api`] selects the
//! Responses API. The Responses API keeps a model's reasoning from turn to turn, and offers tools that OpenAI runs
//! itself.
//!
//! # Mapping
//!
//! - Chat Completions: unknown fields of a response's message are kept in one
//!   [`ContentBlock::Raw`](neuron_model::ContentBlock::Raw). The next request contains only those fields that the API
//!   also accepts in requests: a refusal, speech, `reasoning_details`, `extra_content`, `thinking_blocks`,
//!   `reasoning_opaque` and `reasoning_text`. A tool call with unknown fields, such as a thought signature, is kept and
//!   sent back with all its fields. Unknown fields are sent back only to the vendor that created them, identified by
//!   [`Dialect::name`]. Reasoning of compatible servers becomes
//!   [`ContentBlock::Thinking`](neuron_model::ContentBlock::Thinking).
//! - Chat Completions: truncated arguments of a tool call are sent back as a JSON object, because servers reject any
//!   other text.
//! - Responses: each item is kept unchanged, with a portable block beside it. A truncated response may end with a
//!   reasoning item. The next request omits this item, because the API rejects reasoning without a following item.
//!   Truncated arguments of a tool call are sent back as a JSON text. A call gets a new id if it has none, or if an
//!   earlier call of the response has the same id.
//! - Responses: a response may contain an item that the client must answer although the item is not a call of the
//!   request's tools. The types are `apply_patch_call`, `computer_call`, `local_shell_call`, `mcp_approval_request`,
//!   `shell_call` without a container, and `tool_search_call` of the client. The stop reason is then
//!   [`StopReason::Other`](neuron_model::StopReason::Other) with the type of the first such item, because
//!   [`StopReason::ToolUse`](neuron_model::StopReason::ToolUse) would promise calls that an agent can run. The caller
//!   must answer with an item in the API's format. Tools that ran on the server do not change the stop reason.
//! - Responses: OpenAI searches [deferred tools](neuron_model::RequestRef::deferred_tools) itself, if the model is gpt-5.4
//!   or later, but not `nano`, and the request has less than 128 tools. A deferred tool that an earlier call of another model names is sent
//!   without `defer_loading`, because the API rejects such a call otherwise.
//! - A [`ContentBlock::Raw`](neuron_model::ContentBlock::Raw) of `"openai"` in a user message is sent unchanged. Use
//!   such a block for speech in Chat Completions, and for the results of OpenAI's own tools in Responses.
//! - Models sometimes call a tool by an invalid name, which the API would reject in the next request. The name is then
//!   sent back with `_` in place of each invalid character.
//! - Chat Completions accepts images only from users, so the images of tool results follow in a user message. Failed
//!   tool results begin with `Error:`, because the API has no flag for them.
//! - The APIs have no thinking budget. [`reasoning_effort`](neuron_model::CompletionRequest::reasoning_effort) controls
//!   the reasoning, and [`ThinkingConfig::Disabled`](neuron_model::ThinkingConfig::Disabled) turns it off. With the
//!   Responses API, enabled thinking requests a summary of the reasoning.
//! - Cache breakpoints are not sent, because the vendor caches prefixes automatically.
//! - [`CompletionRequest::extra`](neuron_model::CompletionRequest::extra) is merged recursively into the body, and its
//!   `tools` are appended to the tools of the request. Use `extra` for the vendor's own tools.
//! - A truncated stream is an error and never a short response. A stream is truncated if it ends without `[DONE]` and
//!   without a finish reason, if it ends inside an event, or if its connection breaks before `[DONE]`. A server may end
//!   a stream without `[DONE]` after the finish reason and the usage.
//! - The provider does not retry. [`ProviderError::is_retryable`](neuron_model::ProviderError::is_retryable) returns
//!   `true` for errors that may be retried. An exhausted quota is the error
//!   [`InsufficientResources`](neuron_model::ProviderError::InsufficientResources), although OpenAI reports it with
//!   status 429, like a rate limit.
//!
//! # Compatible servers
//!
//! [`OpenAi::compatible`] takes a [`Dialect`]. A dialect contains the URL of a server, and describes how requests to
//! the server differ from requests to OpenAI. There are predefined dialects for 32 servers, among them Azure, Vertex
//! AI, Mistral, DeepSeek, OpenRouter, vLLM and llama.cpp. Responses, streams and errors of all compatible servers are
//! parsed in the same way. [`OpenAi::key_source`] supports tokens that expire.
//!
//! ```
//! use neuron_provider_openai::{Dialect, OpenAi};
//!
//! let provider = OpenAi::compatible(Dialect::mistral(), "key").model("mistral-large-latest");
//! let azure = Dialect::azure_deployment("my-resource", "my-deployment", "2024-10-21");
//! let provider = OpenAi::compatible(azure, "key");
//! ```
//!
//! # Metadata
//!
//! [`Message::metadata`](neuron_model::Message::metadata) of a response contains the request id, the rate limits, the
//! service tier, the cost, search results beside the text, uses of the server's tools, and log probabilities. Values
//! that the server does not report are absent. Citations inside the text remain in its blocks.
//!
//! # Source files
//!
//! | file | content |
//! |---|---|
//! | `client.rs` | [`OpenAi`], with settings, headers and calls |
//! | `dialect.rs`, `dialect/servers.rs` | [`Dialect`] and the predefined dialects |
//! | `metadata.rs` | metadata of responses |
//! | `request.rs`, `message.rs` | requests of Chat Completions |
//! | `response.rs` | responses of Chat Completions |
//! | `stream.rs`, `stream/` | streams of Chat Completions |
//! | `call.rs`, `message_fields.rs` | fields of calls and messages, for requests and responses |
//! | `usage.rs` | token counts |
//! | `responses/` | requests, responses and streams of the Responses API |
//! | `embed.rs` | embeddings |
//! | `lenient.rs` | lenient deserialisation |
//! | `error.rs` | conversion of errors to [`ProviderError`](neuron_model::ProviderError) |
//! | [`models`] | names of current models |
//! | [`wire`] | the mapping as plain functions, without HTTP |
//! | [`types`] | `neuron-model`, for programs that depend on this crate alone |
//!
//! [`neuron_http`] contains the HTTP endpoint, the decoder of server-sent events, and the redaction of keys.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod call;
mod client;
mod dialect;
mod error;
mod lenient;
mod message;
mod message_fields;
mod metadata;
mod request;
mod response;
mod stream;
mod usage;

mod embed;
mod responses;

#[cfg(test)]
mod dialect_checks;
#[cfg(test)]
mod request_checks;
#[cfg(test)]
mod stream_checks;

pub mod models;
pub mod wire;

pub use client::{DEFAULT_EMBEDDING_MODEL, DEFAULT_MODEL, OpenAi};
pub use dialect::{Dialect, KeyHeader, ReasoningBack, SystemRole, TokenLimit};
pub use neuron_http::KeySource;
/// The crate `neuron-model`, with the messages, requests, traits and errors in this crate's API. The crate `neuron` has
/// the same items under the same names. The whole crate is re-exported, because a list of names would miss items of
/// later versions.
pub use neuron_model as types;
