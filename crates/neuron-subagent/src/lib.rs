//! Sub-agents, which run as tools of another agent or from code.
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
//! For a team of agents, run `cargo run -p neuron-examples -- sub_agents`. For agents that work concurrently, run
//! `cargo run -p neuron-examples -- sub_agents_only`.
//!
//! # Parts of a sub-agent
//!
//! - A conversation of its own, which begins with the prompt. The sub-agent does not see the parent run's conversation.
//! - The tools that its configuration [names](SubAgentConfig::tools), together with their middleware. Timeouts,
//!   permissions and sandboxes therefore apply to the sub-agent too. It has no other tools.
//! - Other agents that its configuration names, up to their [maximum depth](SubAgentConfig::max_depth).
//!
//! # Relation to the parent run
//!
//! | Subject | Behaviour |
//! |---|---|
//! | answer | The answer is the result of the call. A failure is an error result, which the calling model sees. |
//! | tokens | The tokens count in the [`usage`](neuron_loop::Conversation::usage) of all parent runs and for their token limits. They count once, even if the agent fails, is dropped or waits. Requests and tool calls count only in the agent's own run. |
//! | budget | A [`Budget`](neuron_loop::Budget) of the parent run, or in its context, is shared. It also limits requests and tool calls. |
//! | cancellation | Cancelling the parent run ends the agent immediately. A parent run with [`CancelMode::AfterTurn`](neuron_loop::CancelMode) lets the agent finish. A cancelled agent also ends the parent run. |
//! | hooks | The hooks of the parent run receive the agent's events before [its own hooks](SubAgentConfig::hooks), unless the agent does not [inherit](SubAgentConfig::inherits_hooks) them. [`HookScope::within`](neuron_types::HookScope::within) names the outer call. Spans of the agent are children of the call's span. A hook that ends the agent's run also ends the parent runs. |
//! | permissions | The policy of the parent run decides, unless the agent has [its own](SubAgentConfig::policy). |
//! | approvals | The agent pauses if the parent run may pause. The parent run then ends with the agent's pending calls in [`PendingCall::nested`](neuron_types::PendingCall::nested). After the decision, the agent resumes where it paused, in this process or another. |
//! | keys | The id of the agent's run is the idempotency key of the call plus the agent's name. The keys of the agent's calls begin with this id. |
//! | deltas | The agent's text does not stream to the reader of the parent run. The parent's stream has only the call and its result. Hooks and the [progress reporter](neuron_types::ToolContext::progress_reporter), which the agent's tools share, report the progress. |
//! | durability | A durable engine journals the agent's run turn by turn, in a separate journal. A crash repeats at most one model call, and the idempotency keys of tool calls stay the same. |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod config;
mod manager;
mod tool;

mod child_context;

pub use config::SubAgentConfig;
pub use manager::SubAgentManager;
pub use neuron_types::{NoCompaction, SubAgentError};
pub use tool::SubAgentTool;
