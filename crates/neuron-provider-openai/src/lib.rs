//! OpenAI's Chat Completions, Responses and Embeddings APIs as a neuron
//! [`Provider`](neuron_types::Provider) and
//! [`EmbeddingProvider`](neuron_types::EmbeddingProvider), and those of compatible servers.
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
//! # Which API
//!
//! Chat Completions, which compatible servers speak too, unless
//! [`OpenAi::responses_api`] is called. The Responses API gives a reasoning model its thoughts back
//! from turn to turn, and has the vendor's own tools.
//!
//! # What comes and what goes
//!
//! - Chat Completions: fields of an answer's message that neuron does not model are kept in one
//!   [`ContentBlock::Raw`](neuron_types::ContentBlock::Raw). Those that requests have too go back in
//!   the message: a refusal, speech, `reasoning_details`, `extra_content`, `thinking_blocks`,
//!   `reasoning_opaque` and `reasoning_text`. A call with fields that neuron does not model, such as a
//!   signature of its thoughts, is kept and goes back with all of them. Such fields go back only to the
//!   vendor that sent them, by [`Dialect::name`]. Reasoning that compatible
//!   servers send is [`ContentBlock::Thinking`](neuron_types::ContentBlock::Thinking).
//! - Arguments that were cut off go back in Chat Completions as a JSON object, as servers refuse others.
//! - Responses: each item is kept as it came, with its meaning beside it. Reasoning that nothing
//!   came of, because the answer was cut, is left out of the next request: the API refuses it.
//!   Arguments that were cut off go back as a JSON text. A call gets an id if it has none, or if an
//!   earlier call of the answer has the same id.
//! - Responses: an answer that waits for the client, but has no call of the request's tools, ends with
//!   [`StopReason::Other`](neuron_types::StopReason::Other) and the type of the first such item:
//!   `apply_patch_call`, `computer_call`, `local_shell_call`, `mcp_approval_request`, `shell_call`
//!   without a container, or `tool_search_call` of the client. The caller answers it with an item of
//!   its own. [`StopReason::ToolUse`](neuron_types::StopReason::ToolUse) would promise calls that an
//!   agent can run. Tools that the server ran itself do not change the stop reason.
//! - A block that the caller writes in the API's own words, a
//!   [`ContentBlock::Raw`](neuron_types::ContentBlock::Raw) of `"openai"` in a user message, is sent
//!   as it is: speech in Chat Completions, the answer to one of the vendor's own tools in Responses.
//! - A call by a name that is none, which models invent, goes back with `_` in place of what the API
//!   refuses.
//! - Images in the results of tools follow in a user message in Chat Completions, which takes them
//!   nowhere else. Errors of tools are marked by the word `Error:`, as the API has no mark for them.
//! - A budget for thinking has no equal here: the model reasons by
//!   [`reasoning_effort`](neuron_types::CompletionRequest::reasoning_effort), and
//!   [`ThinkingConfig::Disabled`](neuron_types::ThinkingConfig::Disabled) means none. With the
//!   Responses API, thinking that is on asks for its summary.
//! - Cache breakpoints are not sent: the vendor caches prefixes by itself.
//! - [`CompletionRequest::extra`](neuron_types::CompletionRequest::extra) is merged deep into the
//!   body, and its `tools` are appended: the way to the vendor's own tools.
//! - A stream that ends without `[DONE]` or a reason why the model stopped is an error, never a short
//!   answer. So is a stream that ends inside an event, or whose connection breaks before `[DONE]`. A
//!   server may end the stream after the reason and the usage, without `[DONE]`.
//! - Nothing is retried: [`ProviderError::is_retryable`](neuron_types::ProviderError::is_retryable)
//!   says what may be. A quota that is used up is
//!   [`InsufficientResources`](neuron_types::ProviderError::InsufficientResources), though the vendor
//!   gives it the status of a rate limit.
//!
//! # Compatible servers
//!
//! [`OpenAi::compatible`] takes a [`Dialect`]: the address of a server, and how its requests differ. There
//! are ready-made dialects for 32 servers, among them Azure, Vertex AI, Mistral, DeepSeek, OpenRouter, vLLM
//! and llama.cpp. Reading needs no dialect: answers, streams and errors of these servers are read alike.
//! [`OpenAi::key_source`] takes tokens that expire.
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
//! [`Message::metadata`](neuron_types::Message::metadata) of an answer has the request id, the rate limits,
//! the service tier, the cost, search results beside the text, uses of the server's tools and log
//! probabilities, if the server reports them. Citations inside the text stay in its blocks.
//!
//! # Where to look
//!
//! | file | what it knows |
//! |---|---|
//! | `client.rs` | [`OpenAi`]: settings, headers, the calls |
//! | `dialect.rs`, `dialect/servers.rs` | [`Dialect`], and those of known servers |
//! | `facts.rs` | facts about an answer beside its content |
//! | `request.rs`, `message.rs` | our request as the JSON of Chat Completions |
//! | `response.rs` | its JSON as our response |
//! | `stream.rs`, `stream/` | its chunks as our events |
//! | `call.rs`, `message_fields.rs` | fields of calls and messages, in both directions |
//! | `usage.rs` | counts of tokens |
//! | `responses/` | the same three for the Responses API |
//! | `embed.rs` | embeddings |
//! | `lenient.rs` | reading what compatible servers write in forms of their own |
//! | `error.rs` | status, headers and body as a [`ProviderError`](neuron_types::ProviderError) |
//! | [`models`] | the names of current models |
//! | [`wire`] | all of these as plain functions, without HTTP |
//! | [`types`] | `neuron-types`: a program with this provider alone depends on no other crate of neuron |
//!
//! What lies below (the endpoint, server-sent events, keys that never show) is [`neuron_http`]'s.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod call;
mod client;
mod dialect;
mod error;
mod facts;
mod lenient;
mod message;
mod message_fields;
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
/// The messages, requests, traits and errors that the API of this crate consists of, under the name that
/// they have in the crate `neuron`. A list of their names would miss those of the next version.
pub use neuron_types as types;
