//! Sub-agents, which are tools of an agent or run from code.
//!
//! ```
//! use neuron_loop::{Agent, Conversation};
//! use neuron_subagent::{SubAgentConfig, SubAgentManager};
//! # use neuron_testing::{Reply, ScriptedProvider};
//! use neuron_tool::ToolRegistry;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let provider = ScriptedProvider::new([
//! #     Reply::tool_call("c", "translator", serde_json::json!({ "prompt": "Good morning" })),
//! #     Reply::text("Bonjour"),
//! #     Reply::text("It is \"Bonjour\"."),
//! # ]);
//! let mut agents = SubAgentManager::new();
//! agents.register("translator", SubAgentConfig {
//!     description: "Translates a text into French.".into(),
//!     system_prompt: "Answer with the translation alone.".into(),
//!     ..Default::default()
//! });
//!
//! let mut tools = ToolRegistry::new();
//! agents.add_to(&mut tools, provider.clone())?;
//!
//! let agent = Agent::builder(provider).tools(tools).build();
//! let question = "What is \"Good morning\" in French?";
//! let result = agent.run(&mut Conversation::new(), question).await?;
//! assert_eq!(result.response, "It is \"Bonjour\".");
//! # Ok(())
//! # }
//! ```
//!
//! A team that works side by side: `cargo run -p neuron-subagent --example research_team`.
//!
//! # What an agent has
//!
//! - A conversation of its own, which begins with the prompt. What the agent around it knows it does not.
//! - The tools that its configuration [names](SubAgentConfig::tools), with the middleware around them: time
//!   limits, permissions and sandboxes hold for it too. It has no others.
//! - Other agents, if it names them, as deep as they [may be](SubAgentConfig::max_depth).
//!
//! # What passes between it and the run around it
//!
//! | what | how |
//! |---|---|
//! | answer | The result of the call. What goes wrong is an error result, which the model around it sees. |
//! | tokens | Count in the [`usage`](neuron_loop::Conversation::usage) of all runs around it, and for their limits on tokens: once, also if it fails, is dropped or waits. Requests and tool calls count in its own run. |
//! | budget | A [`Budget`](neuron_loop::Budget) of the run around it, or in its context, is shared, for requests and tool calls too. |
//! | cancellation | Ends it at once, and the run around it with it. A run with [`CancelMode::AfterTurn`](neuron_loop::CancelMode) lets it finish. |
//! | hooks | Those of the run around it watch it before [its own](SubAgentConfig::hooks), unless it does not [inherit](SubAgentConfig::inherits_hooks) them. [`HookScope::within`](neuron_types::HookScope::within) says whose events they are; spans lie within that of the call. A hook that ends its run ends those around it. |
//! | permissions | The policy of the run around it decides, or [its own](SubAgentConfig::policy). |
//! | approvals | It waits if the run around it may: that one stops with its calls in [`PendingCall::nested`](neuron_types::PendingCall::nested), and once they are decided on, in this process or another, it goes on where it stopped. |
//! | keys | Its run's id is the key of the call with its name, and the keys of its calls begin with it. |
//! | deltas | Its text does not stream to the reader of the run around it, whose stream has the call and its result. Hooks and the [progress reporter](neuron_types::ToolContext::progress_reporter), which its tools share, tell what it does meanwhile. |
//! | durability | A durable engine journals its run turn by turn, in a journal of its own. A crash costs at most one call of the model, and an effect keeps its key. |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod config;
mod manager;
mod tool;

mod child_context;

pub use config::SubAgentConfig;
pub use manager::SubAgentManager;
pub use neuron_types::{NoCompaction, SubAgentError};
pub use tool::SubAgentTool;
