//! Everything for testing agents without a network, a key or a model.
//!
//! A [`ScriptedProvider`] is a [`Provider`](neuron_types::Provider) that answers from a script: a
//! list of [`Reply`]s, used up in order.
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
//! let first = provider.complete_ref(&request).await?;
//! assert_eq!(first.stop_reason, StopReason::ToolUse);
//! let second = provider.complete_ref(&request).await?;
//! assert_eq!(second.message.text(), "It is 4.");
//! provider.assert_complete();
//! # Ok(())
//! # }
//! ```
//!
//! An [`AnthropicServer`], an [`OpenAiServer`] and an [`OllamaServer`] answer from the same script
//! over HTTP, on the loopback interface, and refuse what the vendor refuses. They are for tests of a
//! provider, and for tests and examples that go through one.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | one scripted answer, its delays and its failures | [`Reply`] |
//! | a provider for tests of whatever calls a model | [`ScriptedProvider`] |
//! | a server for tests of whatever speaks HTTP to Anthropic | [`AnthropicServer`] |
//! | one for OpenAI, or for a server that is compatible with it | [`OpenAiServer`], [`openai::Dialect`] |
//! | one for Ollama | [`OllamaServer`], [`ollama::Dialect`] |
//! | one for a vendor of your own | [`vendor`] |
//! | what servers do besides answering: records, connections, waiting | [`vendor::VendorServer`] |
//! | any status and bytes, split and cut anywhere | [`ServerReply`], [`Wire`] |
//! | a connection that does what no server should | [`RawServer`] |
//! | a vendor's rules and formats without HTTP | [`anthropic`], [`openai`], [`ollama`] |
//! | whether a provider of yours holds the contract | [`conformance`] |
//! | a real PostgreSQL | [`postgres`](postgres::PostgresServer) |
//! | a real Restate or Temporal | [`engines`] |
//! | MCP's conformance suite, reference servers and SDK for Python | [`mcp`] |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod script;
mod scripted_provider;

mod loopback;

pub mod anthropic;
pub mod ollama;
pub mod openai;

pub mod vendor;

pub mod conformance;

#[cfg(unix)]
pub mod postgres;

#[cfg(unix)]
pub mod engines;

#[cfg(unix)]
pub mod mcp;

#[cfg(unix)]
mod fetched;
#[cfg(unix)]
mod server_process;

mod base64;
mod chunks;
mod events;
mod queue;

pub use anthropic::AnthropicServer;
pub use loopback::{RawConnection, RawServer, RecordedRequest, ServerReply, Wire};
pub use ollama::OllamaServer;
pub use openai::OpenAiServer;
pub use script::Reply;
pub use scripted_provider::ScriptedProvider;
