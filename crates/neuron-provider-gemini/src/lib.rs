//! Provider for Google's [Gemini API](https://ai.google.dev/gemini-api/docs), on Google AI and on Vertex AI.
//!
//! Implements [`Provider`](neuron_model::Provider) and [`EmbeddingProvider`](neuron_model::EmbeddingProvider).
//!
//! ```no_run
//! use neuron_provider_gemini::Gemini;
//! use neuron_provider_gemini::types::{CompletionRequest, Message, Provider};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = Gemini::from_env()?;
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
//! [`Gemini::vertex`] creates a client of Vertex AI. Its access tokens come from an async function, so this crate
//! depends on no library for Google's credentials.
//!
//! # Mapping
//!
//! - A part with a [thought signature](https://ai.google.dev/gemini-api/docs/thought-signatures) or with unknown fields,
//!   and a call with an id of the server, become [`ContentBlock::Raw`](neuron_model::ContentBlock::Raw). Such a part is
//!   sent back unchanged, and to the same platform only. Google AI has the provider name `gcp.gemini`, and Vertex AI has
//!   `gcp.vertex_ai`, because each of them rejects the signatures of the other. Models before Gemini 3 reject the ids of
//!   calls, and get none.
//! - Images in a response, and the code and the output of code execution, become raw blocks too. Code and output are no
//!   part of the text of the answer. The other platform gets them as a thought, and so do vendors that accept the thoughts
//!   of others. Other vendors do not get them, and no other vendor gets the images, because other vendors accept images from the user only. To send an image elsewhere, add it to a message of
//!   the user.
//! - Thought summaries become [`ContentBlock::Thinking`](neuron_model::ContentBlock::Thinking) without a signature, and
//!   are sent back. Signed thinking comes from another vendor and is not sent. The API sends summaries only if
//!   [`thinking`](neuron_model::CompletionRequest::thinking) is enabled or adaptive.
//! - The API rejects signatures of another model. The raw block of a signed part therefore has the field
//!   `neuron:signedBy`, with the name of the model that was asked. The field is never sent, and another model gets the
//!   part without its signature. Models since Gemini 3 reject a first call without a signature. A first call that
//!   another model made is sent with the value that Google documents for this case.
//! - The API also rejects signatures of another project, and the crate cannot recognise them. Do not continue a
//!   conversation that waits for the results of tools in another project.
//! - A tool call without an id gets a UUID, which is never sent. The name of a tool result's tool is the name in the
//!   call. A tool result without a call is an error.
//! - Names of tools are sent with `_` in place of characters that the API rejects, with `_` before an invalid first
//!   character, and with a number if they would repeat. A call has the original name of its tool.
//! - If the response ends with `MALFORMED_…` or `UNEXPECTED_…`, its calls are kept as raw blocks that do not run and are
//!   not sent back. The events of calls arrive at the end of a stream, because this reason arrives there. A refusal has no
//!   event [`ToolUse`](neuron_model::StreamEvent::ToolUse), so its calls do not run either.
//! - A prompt that the API refuses is an empty response with the stop reason
//!   [`Refusal`](neuron_model::StopReason::Refusal). [`stop_details`](neuron_model::AnswerMetadata::stop_details)
//!   contains the `promptFeedback`. The API does not report stop sequences, so the stop reason is
//!   [`EndTurn`](neuron_model::StopReason::EndTurn).
//! - [`TokenUsage::output_tokens`](neuron_model::TokenUsage::output_tokens) includes thoughts, and
//!   [`TokenUsage::input_tokens`](neuron_model::TokenUsage::input_tokens) includes cached tokens and the prompts of
//!   server tools.
//! - System messages at the beginning of the conversation are added to the system instruction. Later system messages are
//!   sent as messages of the user, because the API has no role for them.
//! - A conversation that begins with the model, for example because the first message is blank, gets the message
//!   `[blank message]` before it. A conversation that ends with the model gets the message `Continue.`.
//! - Images and PDF documents in the results of tools are parts of the function response. For models before Gemini 3,
//!   and if they are URLs, they follow in a content of the user. The API accepts images as PNG, JPEG, WebP, HEIC and
//!   HEIF. Vertex AI needs the type of the file at a URL, which the extension in the URL determines. Any other file in a
//!   result becomes a text, and in a message it is an error.
//! - Input schemas are sent as JSON Schema, with local references resolved and with the type `object`. Keywords that the
//!   API rejects, such as `format` and exclusive bounds, and references that cannot be resolved become a part of the
//!   description. A condition (`not`, `if`) with such a keyword becomes a part of the description as a whole.
//! - The thinking of models before Gemini 3 has a budget, and the thinking of later models has a level. An effort becomes
//!   a budget for the former. A budget is left out for the latter. Thinking that cannot be switched off is an error.
//! - The API caches prompts automatically, so cache breakpoints are ignored. With `cachedContent` in
//!   [`extra`](neuron_model::CompletionRequest::extra), the system prompt and the tools are not sent, because the cache
//!   contains them. System messages at the beginning are then sent as messages of the user.
//! - [`CompletionRequest::extra`](neuron_model::CompletionRequest::extra) is merged recursively into the body, and its
//!   `tools` are appended to the tools of the request. Use `extra` for Google's own tools, for `safetySettings` and for
//!   other fields of `generationConfig`. Audio and video are sent as `ContentBlock::Raw`, with a part of the API as its
//!   JSON.
//! - A stream or a whole response without a `finishReason` is an error and never a short response. Several chunks of a
//!   stream may have a `finishReason`. The last one counts, and the stream is complete when the server ends it, or
//!   at the [`idle_timeout`](Gemini::idle_timeout).
//! - The provider does not retry. [`ProviderError::is_retryable`](neuron_model::ProviderError::is_retryable) returns
//!   `true` for errors that may be retried.
//!
//! # Long responses
//!
//! Models with [long decode](https://ai.google.dev/gemini-api/docs/long-decode), which are the models since Gemini 4,
//! generate at most 65,536 tokens per request, or 32,768 tokens if the response is not streamed. For them,
//! [`max_tokens`](neuron_model::CompletionRequest::max_tokens) is the maximum of all requests that continue each other,
//! and is sent unchanged. A whole response of more than 32,768 tokens is requested as a stream, and collected within the
//! [`timeout`](Gemini::timeout) of the call. For other models, a larger maximum than 65,536 is sent as 65,536.
//!
//! This crate sends one request per call. A response at the maximum of one request ends with
//! [`MaxTokens`](neuron_model::StopReason::MaxTokens). If the API can continue it, `stop_details` contains a
//! `continuationToken`. To continue, send the same request again, with the same `max_tokens` and with the token in
//! `extra`.
//!
//! The crate does not continue by itself. Each further request is charged for the whole prompt again, and so a limit on
//! the number or the cost of requests would not hold.
//!
//! # Source files
//!
//! | file | content |
//! |---|---|
//! | `client.rs` | [`Gemini`], with settings, headers and calls |
//! | `model.rs` | names of models in URLs, and their generations |
//! | `request.rs` | requests |
//! | `contents.rs` | the conversation in a request |
//! | `results.rs` | results of tools in a request |
//! | `media.rs` | images and documents in a request |
//! | `thinking.rs` | settings of thinking in a request |
//! | `tools.rs`, `names.rs`, `schema.rs` | tools in a request, their names and schemas |
//! | `response.rs` | responses |
//! | `parts.rs`, `partial_call.rs` | parts of responses |
//! | `metadata.rs`, `usage.rs` | metadata and token counts of responses |
//! | `stream.rs` | streams |
//! | `embed.rs` | embeddings, with the methods of Vertex AI in `embed/vertex.rs` |
//! | `error.rs` | conversion of errors to [`ProviderError`](neuron_model::ProviderError) |
//! | [`models`] | names of current models |
//! | [`wire`] | the mapping as plain functions, without HTTP |
//! | [`types`] | `neuron-model`, for programs that depend on this crate alone |
//!
//! [`neuron_http`] contains the HTTP endpoint, the decoder of server-sent events, and the redaction of keys.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod client;
mod contents;
mod embed;
mod error;
mod media;
mod metadata;
mod model;
mod names;
mod partial_call;
mod parts;
mod request;
mod response;
mod results;
mod schema;
mod stream;
mod thinking;
mod tools;
mod usage;

pub mod models;
pub mod wire;

pub use client::{DEFAULT_MODEL, Gemini};
pub use embed::DEFAULT_EMBEDDING_MODEL;
pub use neuron_http::KeySource;
/// The crate `neuron-model`, with the messages, requests, traits and errors in this crate's API. The crate `neuron` has
/// the same items under the same names. The whole crate is re-exported, because a list of names would miss items of
/// later versions.
pub use neuron_model as types;
