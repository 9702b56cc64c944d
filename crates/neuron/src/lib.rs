//! Composable building blocks for AI agents, with the neuron crates under one name.
//!
//! ```no_run
//! use neuron::anthropic::Anthropic;
//! use neuron::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder(Anthropic::from_env()?)
//!     .system_prompt("You are a helpful assistant.")
//!     .max_turns(10)
//!     .build();
//!
//! let mut conversation = Conversation::new();
//! let result = agent.run(&mut conversation, "What is Rust?").await?;
//! println!("{}", result.response);
//! # Ok(())
//! # }
//! ```
//!
//! To run an agent without an API key, use `cargo run -p neuron --example quickstart`.
//!
//! # Map
//!
//! Each module re-exports a crate that you can also use alone.
//!
//! | module | crate | content |
//! |---|---|---|
//! | [`types`] | `neuron-types` | messages, requests, traits, errors |
//! | [`tool`] | `neuron-tool` | the tool registry, its middleware, tools from functions and structs |
//! | [`context`] | `neuron-context` | strategies for long conversations |
//! | [`agent`] | `neuron-loop` | the agent loop |
#![cfg_attr(
    feature = "anthropic",
    doc = "| [`anthropic`] | `neuron-provider-anthropic` | Anthropic's Messages API |"
)]
#![cfg_attr(
    feature = "openai",
    doc = "| [`openai`] | `neuron-provider-openai` | the APIs of OpenAI and of compatible servers |"
)]
#![cfg_attr(
    feature = "ollama",
    doc = "| [`ollama`] | `neuron-provider-ollama` | Ollama's chat and embeddings |"
)]
#![cfg_attr(
    feature = "gemini",
    doc = "| [`gemini`] | `neuron-provider-gemini` | Google's Gemini API, on Google AI and Vertex AI |"
)]
#![cfg_attr(
    feature = "bedrock",
    doc = "| [`bedrock`] | `neuron-provider-bedrock` | Amazon Bedrock's Converse API |"
)]
#![cfg_attr(
    feature = "catalog",
    doc = "| [`catalog`] | `neuron-catalog` | context windows, limits and prices of models, the cost of calls |"
)]
#![cfg_attr(
    feature = "runtime",
    doc = "| [`runtime`] | `neuron-runtime` | sessions, guardrails, tracing, permission rules, sandboxes |"
)]
#![cfg_attr(
    feature = "durable-sqlite",
    doc = "| [`durable_sqlite`] | `neuron-durable-sqlite` | runs that survive a crash, in a SQLite file |"
)]
#![cfg_attr(
    feature = "durable-restate",
    doc = "| [`durable_restate`] | `neuron-durable-restate` | runs that survive a crash, on Restate |"
)]
#![cfg_attr(
    feature = "session-postgres",
    doc = "| [`session_postgres`] | `neuron-session-postgres` | sessions in PostgreSQL |"
)]
#![cfg_attr(
    feature = "session-sqlite",
    doc = "| [`session_sqlite`] | `neuron-session-sqlite` | sessions in SQLite |"
)]
#![cfg_attr(
    feature = "subagent",
    doc = "| [`subagent`] | `neuron-subagent` | agents that run as tools of another agent |"
)]
#![cfg_attr(
    feature = "mcp",
    doc = "| [`mcp`] | `neuron-mcp` | the tools of MCP servers in an agent, and an MCP server for your own tools |"
)]
#![cfg_attr(
    feature = "otel",
    doc = "| [`otel`] | `neuron-otel` | OpenTelemetry traces and metrics |"
)]
#![cfg_attr(
    feature = "router",
    doc = "| [`router`] | `neuron-router` | a provider over several others, with fallback |"
)]
#![cfg_attr(
    feature = "tower",
    doc = "| [`mod@tower`] | `neuron-tower` | tower middleware around a provider |"
)]
//!
//! # Features
//!
//! | feature | enables | default |
//! |---|---|---|
//! | `anthropic` | `neuron-provider-anthropic` | yes |
//! | `macros` | `#[neuron_tool]` and `#[derive(Tool)]` of `neuron-tool` | yes |
//! | `openai` | `neuron-provider-openai` | no |
//! | `ollama` | `neuron-provider-ollama` | no |
//! | `gemini` | `neuron-provider-gemini` | no |
//! | `bedrock` | `neuron-provider-bedrock` | no |
//! | `bedrock-sigv4` | AWS credentials for `neuron-provider-bedrock` | no |
//! | `catalog` | `neuron-catalog` | no |
//! | `runtime` | `neuron-runtime` | no |
//! | `durable-sqlite` | `neuron-durable-sqlite` | no |
//! | `durable-restate` | `neuron-durable-restate` | no |
//! | `process-sandbox` | `ProcessSandbox` of `neuron-runtime`, on Linux | no |
//! | `session-postgres` | `neuron-session-postgres` | no |
//! | `session-sqlite` | `neuron-session-sqlite` | no |
//! | `subagent` | `neuron-subagent` | no |
//! | `mcp` | `neuron-mcp` | no |
//! | `mcp-oauth` | authorization of MCP clients by OAuth 2.1 | no |
//! | `otel` | `neuron-otel` | no |
//! | `reqwest` | a `reqwest` client for the providers, instead of neuron's own HTTP client | no |
//! | `router` | `neuron-router` | no |
//! | `tower` | `neuron-tower` | no |
//! | `signed-approvals` | signatures of tool calls that wait for an approval | no |
//! | `validation` | the validators of [`tool::builtin`] | no |
//! | `full` | all features of this table | no |
//!
//! The Temporal adapter `neuron-durable-temporal` is not part of this crate. Temporal's SDK takes some minutes to build
//! and requires Rust 1.92, while all other crates require Rust 1.90. Depend on `neuron-durable-temporal` directly.
//!
#![doc = include_str!("../durability.md")]
//!
#![doc = include_str!("../backups.md")]
//!
// The package `neuron-tests` compiles the code of this page.
#![cfg_attr(not(doctest), doc = include_str!("../corporate-proxy.md"))]

#[cfg(feature = "catalog")]
pub use neuron_catalog as catalog;
pub use neuron_context as context;
#[cfg(feature = "durable-restate")]
pub use neuron_durable_restate as durable_restate;
#[cfg(feature = "durable-sqlite")]
pub use neuron_durable_sqlite as durable_sqlite;
pub use neuron_loop as agent;
#[cfg(feature = "mcp")]
pub use neuron_mcp as mcp;
#[cfg(feature = "otel")]
pub use neuron_otel as otel;
#[cfg(feature = "anthropic")]
pub use neuron_provider_anthropic as anthropic;
#[cfg(feature = "bedrock")]
pub use neuron_provider_bedrock as bedrock;
#[cfg(feature = "gemini")]
pub use neuron_provider_gemini as gemini;
#[cfg(feature = "ollama")]
pub use neuron_provider_ollama as ollama;
#[cfg(feature = "openai")]
pub use neuron_provider_openai as openai;
#[cfg(feature = "router")]
pub use neuron_router as router;
#[cfg(feature = "runtime")]
pub use neuron_runtime as runtime;
#[cfg(feature = "session-postgres")]
pub use neuron_session_postgres as session_postgres;
#[cfg(feature = "session-sqlite")]
pub use neuron_session_sqlite as session_sqlite;
#[cfg(feature = "subagent")]
pub use neuron_subagent as subagent;
#[cfg(feature = "tower")]
pub use neuron_tower as tower;
pub use neuron_types as types;

pub mod prelude;

/// The crate `neuron-tool`. Its macros generate code that needs no dependency besides `neuron`.
pub mod tool {
    #[doc(no_inline)]
    pub use neuron_tool::*;
    #[cfg(feature = "macros")]
    #[doc(no_inline)]
    pub use neuron_tool_macros::{UmbrellaTool as Tool, umbrella_neuron_tool as neuron_tool};
}
