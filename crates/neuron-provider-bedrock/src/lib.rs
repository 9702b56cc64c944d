//! Provider for [Amazon Bedrock](https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference.html),
//! with its Converse and ConverseStream APIs.
//!
//! Implements [`Provider`](neuron_model::Provider).
//!
//! ```no_run
//! use neuron_provider_bedrock::Bedrock;
//! use neuron_provider_bedrock::types::{CompletionRequest, Message, Provider};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = Bedrock::from_env()?;
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
//! # Authentication
//!
//! [`Bedrock::new`] takes an API key of Bedrock. With the feature `sigv4`, `Bedrock::with_default_credentials` signs
//! requests with AWS credentials from environment variables, profiles, SSO or roles, and `Bedrock::with_credentials`
//! takes a source of credentials of your own. The feature adds AWS's crates for credentials and signatures. The
//! provider then has 158 crates in its dependency tree on Linux, and 76 without the feature.
//!
//! # Mapping
//!
//! The models of Bedrock differ in the requests that they accept. The family of a model follows from its id. For an ARN
//! that does not contain the model, set [`Bedrock::base_model`].
//!
//! - Reasoning of Claude becomes [`ContentBlock::Thinking`](neuron_model::ContentBlock::Thinking) or
//!   [`RedactedThinking`](neuron_model::ContentBlock::RedactedThinking), as in Anthropic's API. Its signatures are
//!   valid on all platforms, so a conversation can move between the two. Reasoning of DeepSeek, of GPT and of models of
//!   an unknown family becomes [`ContentBlock::Raw`](neuron_model::ContentBlock::Raw), and is sent back unchanged.
//! - Texts with citations, calls and results of server tools, and unknown blocks become raw blocks too. A raw block has
//!   the field `neuron:origin`, which is never sent. Only models of the same origin get the block back: Claude,
//!   DeepSeek, Nova or Nova 2, and for other vendors the same model. Other models get the text of a text with
//!   citations, and nothing in place of other blocks. Server tools are never declared for a conversation that has their
//!   calls.
//! - Files of a model become raw blocks, and are sent back as a text such as `[image]`, because the API accepts files
//!   from the user only.
//! - Ids of calls and names of tools are sent with `_` in place of characters that the API rejects, and with a number
//!   if they would repeat. A call has the original name of its tool.
//! - A conversation with calls or results is never sent without tools, because the API rejects it. If the request has
//!   no tools, the tools of earlier calls are sent without their schemas. A Claude model must not call them.
//! - [`ToolChoice::None`](neuron_model::ToolChoice::None) leaves the tools out, unless the conversation has calls or
//!   results. Then only Claude has a setting that forbids calls, and other models may still call a tool. A forced call
//!   is an error for models that do not support it. Claude, Nova, GPT, GLM, Kimi and Grok do, and Mistral supports
//!   [`Required`](neuron_model::ToolChoice::Required).
//! - Neighbouring messages of one role become one message. System messages at the beginning of the conversation are
//!   added to the system prompt. Later system messages are sent as messages of the user.
//! - Llama, Mistral and Palmyra accept nothing beside tool results, and Claude accepts no documents there. Such content
//!   follows in a message of its own, after a message of the assistant with the text `.`. A conversation that begins
//!   with the assistant gets a first message `.` of the user, except for Claude, Qwen, GLM and Kimi.
//! - Images and PDF documents are sent in base64. A URL is an error, because the API fetches nothing. In tool results,
//!   a URL becomes a text. Only Claude, Nova and Llama 4 accept images there. Files that the model does not accept in
//!   tool results follow the results. Documents are called `Document 1` and so on, because the model reads the name. A
//!   raw document gets a number if its name repeats. Plain text documents are sent as texts.
//! - A request has at most 20 images and 5 documents, and for Claude at most 20 of both together. Beyond this, the
//!   oldest files of tool results are replaced by texts such as `[image]`. Files that the user sent are kept, and more
//!   of them than the limit are an error of the server.
//! - Reasoning at the end of a message is not sent, because it belongs to a response that was cut off. Claude rejects
//!   it.
//! - Blank texts are not sent, also not in citations. A message of the user that has only blank texts is sent as `.`.
//!   So is the request to continue a response that another vendor paused to run a tool of its own. The result of a tool
//!   without content is sent with a text that says so.
//! - Cache breakpoints of tools, of the system prompt and of the conversation become cache points for Claude since 3.7
//!   and for Nova. At most four are sent, and a lifetime of an hour only to Claude since 4.5 and only before shorter
//!   lifetimes. Other breakpoints are left out. Cache points in raw blocks count too. Nova accepts a point only after a
//!   text, so the point at the end of a conversation with Nova follows the last text of the user.
//! - Thinking is set in `additionalModelRequestFields`, with the fields of the model's family. A setting for which no
//!   field is known is an error. A thinking budget of Claude is omitted in a turn that began without reasoning, for
//!   example with another vendor's model, because Claude rejects the budget until the turn ends.
//! - `maxTokens` is always sent, with [`DEFAULT_MAX_TOKENS`] or a lower number as its default. The exception is Nova 2
//!   with the highest effort, which rejects a maximum, a temperature and `top_p`. Such a setting of a request is an
//!   error, and the client's default is left out.
//! - The ARN of a prompt is sent without `inferenceConfig`, `system`, `toolConfig` and `additionalModelRequestFields`,
//!   because a prompt defines them itself. Such a setting of a request is an error. Set `promptVariables` in `extra`.
//! - Temperature and `top_p` are sent as they are. Newer models reject them.
//! - [`TokenUsage::input_tokens`](neuron_model::TokenUsage::input_tokens) includes cached tokens. The API does not
//!   report reasoning tokens.
//! - The response's id is the id of the request. Its model is the requested model, or the model that a prompt router
//!   chose.
//! - Interventions of guardrails and content filters have the stop reason
//!   [`ContentFilter`](neuron_model::StopReason::ContentFilter).
//!   [`stop_details`](neuron_model::AnswerMetadata::stop_details) contains the reason of the API and the trace.
//! - [`CompletionRequest::extra`](neuron_model::CompletionRequest::extra) is merged recursively into the body, and its
//!   `tools` are appended to the tools of `toolConfig`. Use `extra` for `topK` and other fields of a model in
//!   `additionalModelRequestFields`, for `serviceTier` and for `guardrailConfig`. Video and files in S3 are sent as
//!   `ContentBlock::Raw`, with a block of the API as its JSON and `aws.bedrock` as its provider.
//! - A whole response of more than 16,384 tokens, or without a maximum, is requested as a stream, because connections
//!   without traffic are closed on their way. It is collected within the [`timeout`](Bedrock::timeout) of the call.
//!   This requires the permission `bedrock:InvokeModelWithResponseStream`.
//! - A stream that ends before the event `messageStop` is an error and never a short response.
//! - The provider does not retry. [`ProviderError::is_retryable`](neuron_model::ProviderError::is_retryable) returns
//!   `true` for errors that may be retried.
//!
//! # Source files
//!
//! | file | content |
//! |---|---|
//! | `client.rs` | [`Bedrock`], with settings, headers and calls |
//! | `region.rs` | the servers of regions |
//! | `sigv4.rs`, `credentials.rs` | signatures and AWS credentials |
//! | `model.rs` | ids of models in URLs, and their families |
//! | `request.rs` | requests |
//! | `messages.rs`, `block.rs` | the conversation in a request |
//! | `results.rs` | results of tools in a request |
//! | `media.rs` | images and documents in a request |
//! | `tools.rs` | tools in a request |
//! | `thinking.rs` | settings of thinking in a request |
//! | `cache.rs` | cache points in a request |
//! | `allowed.rs`, `ids.rs` | ids of calls and names of tools |
//! | `response.rs` | responses |
//! | `content.rs` | content blocks of responses |
//! | `usage.rs` | token counts of responses |
//! | `stream.rs`, `open_block.rs` | streams |
//! | `event_stream.rs` | binary frames of streams |
//! | `error.rs` | conversion of errors to [`ProviderError`](neuron_model::ProviderError) |
//! | [`models`] | ids of current models |
//! | [`wire`] | the mapping as plain functions, without HTTP |
//! | [`types`] | `neuron-model`, for programs that depend on this crate alone |
//!
//! [`neuron_http`] contains the HTTP endpoint and the redaction of keys.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod allowed;
mod block;
mod cache;
mod client;
mod content;
#[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
mod credentials;
mod error;
mod event_stream;
mod ids;
mod media;
mod messages;
mod model;
mod open_block;
mod region;
mod request;
mod response;
mod results;
#[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
mod sigv4;
mod stream;
mod thinking;
mod tools;
mod usage;

pub mod models;
pub mod wire;

/// The crate with the type and the trait of AWS credentials, for
/// [`with_credentials`](Bedrock::with_credentials).
#[cfg(all(feature = "sigv4", not(target_family = "wasm")))]
pub use aws_credential_types;
pub use client::{Bedrock, DEFAULT_MODEL};
pub use model::DEFAULT_MAX_TOKENS;
pub use neuron_http::KeySource;
/// The crate `neuron-model`, with the messages, requests, traits and errors in this crate's API. The crate `neuron` has
/// the same items under the same names. The whole crate is re-exported, because a list of names would miss items of
/// later versions.
pub use neuron_model as types;

/// Name of Bedrock in telemetry, and name of the API's JSON format in a
/// [`ContentBlock::Raw`](neuron_model::ContentBlock::Raw).
///
/// <https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/>
pub(crate) const PROVIDER: &str = "aws.bedrock";
