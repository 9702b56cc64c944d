//! Composable building blocks for AI agents: the neuron crates under one name.
//!
//! ```no_run
//! use neuron::anthropic::Anthropic;
//! use neuron::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut agent = AgentLoop::builder(Anthropic::from_env()?, SlidingWindowStrategy::new(20, 100_000))
//!     .system_prompt("You are a helpful assistant.")
//!     .max_turns(10)
//!     .build();
//!
//! let result = agent.run_text("What is Rust?", &ToolContext::default()).await?;
//! println!("{}", result.response);
//! # Ok(())
//! # }
//! ```
//!
//! A run without a key: `cargo run -p neuron --example quickstart`.
//!
//! # Map
//!
//! Each module is a crate that also stands alone.
//!
//! | module | crate | what it is |
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
    doc = "| [`openai`] | `neuron-provider-openai` | OpenAI's APIs, and those of compatible servers |"
)]
#![cfg_attr(
    feature = "ollama",
    doc = "| [`ollama`] | `neuron-provider-ollama` | Ollama's chat and embeddings |"
)]
#![cfg_attr(
    feature = "tower",
    doc = "| [`mod@tower`] | `neuron-tower` | tower's middleware around a provider |"
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
//! | `tower` | `neuron-tower` | no |
//! | `signed-approvals` | signatures on calls that wait for an approval | no |
//! | `validation` | the validators of [`tool::builtin`] | no |
//! | `full` | all of them, except the Temporal adapter | no |

pub use neuron_context as context;
pub use neuron_loop as agent;
#[cfg(feature = "anthropic")]
pub use neuron_provider_anthropic as anthropic;
#[cfg(feature = "ollama")]
pub use neuron_provider_ollama as ollama;
#[cfg(feature = "openai")]
pub use neuron_provider_openai as openai;
pub use neuron_tool as tool;
#[cfg(feature = "tower")]
pub use neuron_tower as tower;
pub use neuron_types as types;

pub mod prelude;

/// Compiles what the README shows.
#[cfg(all(
    doctest,
    feature = "anthropic",
    feature = "macros",
    feature = "openai",
    feature = "ollama",
    feature = "tower"
))]
#[doc = include_str!("../../../README.md")]
struct Readme;
