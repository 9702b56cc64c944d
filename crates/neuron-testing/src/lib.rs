//! Tools for testing agents without a network, an API key or a model.
//!
//! A [`ScriptedProvider`] is a [`Provider`](neuron_types::Provider) that returns scripted responses. Its script is a
//! list of [`Reply`]s, and each call takes the next reply.
//!
//! ```
//! use neuron_testing::{Reply, ScriptedProvider};
//! use neuron_types::{CompletionRequest, Message, Provider, ProviderError, StopReason};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ProviderError> {
//! let provider = ScriptedProvider::new([
//!     Reply::tool_call("call_1", "add", serde_json::json!({"a": 2, "b": 2})),
//!     Reply::text("It is 4."),
//! ]);
//!
//! let request = CompletionRequest {
//!     messages: vec![Message::user("What is 2 + 2?")],
//!     ..Default::default()
//! };
//! let first = provider.complete_ref(request.view()).await?;
//! assert_eq!(first.stop_reason, StopReason::ToolUse);
//! let second = provider.complete_ref(request.view()).await?;
//! assert_eq!(second.message.text(), "It is 4.");
//! provider.assert_complete();
//! # Ok(())
//! # }
//! ```
//!
//! [`AnthropicServer`], [`OpenAiServer`], [`GeminiServer`], [`BedrockServer`] and [`OllamaServer`] are HTTP servers on
//! the loopback interface. They send the replies of such a script in the vendor's format, and reject the requests that
//! the vendor rejects. Use them to test a provider, and in tests and examples that call a provider.
//!
//! # Where to look
//!
//! | to test | use |
//! |---|---|
//! | code that calls a model | [`ScriptedProvider`], with a [`Reply`] for each call |
//! | code that calls a model, with a vendor's recorded responses | [`Cassette`] |
//! | the quality of an agent's answers | [`evals`] |
//! | an agent under crashes and errors of the model | [`faults`] |
//! | a client of Anthropic's API | [`AnthropicServer`] |
//! | a client of OpenAI or of a compatible server | [`OpenAiServer`], [`openai::Dialect`] |
//! | a client of Gemini, at Google AI or Vertex AI | [`GeminiServer`] |
//! | a client of Amazon Bedrock's Converse API | [`BedrockServer`] |
//! | a client of Ollama | [`OllamaServer`], [`ollama::Dialect`] |
//! | a client of another vendor | [`vendor`] |
//! | the requests, connections and disconnects at a server | [`vendor::VendorServer`] |
//! | any status and body, split or cut at any byte | [`ServerReply`], [`Wire`] |
//! | a connection that breaks the protocol | [`RawServer`] |
//! | a request body against a vendor's rules, without HTTP | [`anthropic`], [`openai`], [`gemini`], [`bedrock`], [`ollama`] |
//!
//! The test suites for your own provider or session storage are in `neuron-conformance`. The suites for a durable
//! engine are in `neuron-conformance-durable`.
//!
//! # Features
//!
//! All features are on by default. [`ScriptedProvider`] needs none of them.
//!
//! | feature | enables |
//! |---|---|
//! | `anthropic`, `bedrock`, `gemini`, `ollama`, `openai` | the server of this vendor, and `server` |
//! | `server` | [`vendor`], [`RawServer`] and what all servers share |
//! | `cassettes` | [`Cassette`] |
//! | `evals` | [`evals`] |
//! | `faults` | [`faults`] |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
// Each vendor uses a different part of the shared modules.
#![cfg_attr(
    not(all(
        feature = "anthropic",
        feature = "bedrock",
        feature = "cassettes",
        feature = "evals",
        feature = "faults",
        feature = "gemini",
        feature = "ollama",
        feature = "openai"
    )),
    allow(dead_code, unused_imports)
)]

#[cfg(feature = "cassettes")]
mod cassette;
mod script;
mod scripted_provider;

#[cfg(feature = "server")]
mod loopback;

#[cfg(feature = "anthropic")]
pub mod anthropic;
#[cfg(feature = "bedrock")]
pub mod bedrock;
#[cfg(feature = "gemini")]
pub mod gemini;
#[cfg(feature = "ollama")]
pub mod ollama;
#[cfg(feature = "openai")]
pub mod openai;

#[cfg(feature = "evals")]
pub mod evals;
#[cfg(feature = "faults")]
pub mod faults;
#[cfg(feature = "server")]
pub mod vendor;

#[cfg(any(feature = "bedrock", feature = "gemini", feature = "openai"))]
mod base64;
#[cfg(feature = "server")]
mod checker;
mod chunks;
#[cfg(any(feature = "cassettes", feature = "faults"))]
mod differences;
mod events;
#[cfg(feature = "server")]
mod json;
mod queue;

#[cfg(feature = "anthropic")]
pub use anthropic::AnthropicServer;
#[cfg(feature = "bedrock")]
pub use bedrock::BedrockServer;
#[cfg(feature = "cassettes")]
pub use cassette::{Cassette, CassetteMatching, CassetteMode, CassettePace};
#[cfg(feature = "gemini")]
pub use gemini::GeminiServer;
#[cfg(feature = "server")]
pub use loopback::{RawConnection, RawServer, RecordedRequest, ServerReply, Wire};
#[cfg(feature = "ollama")]
pub use ollama::OllamaServer;
#[cfg(feature = "openai")]
pub use openai::OpenAiServer;
pub use script::Reply;
pub use scripted_provider::ScriptedProvider;
