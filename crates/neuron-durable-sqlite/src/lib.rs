//! Durable runs of agents on one machine. Each run has a journal in a SQLite database, and survives a crash of its
//! process. No server is needed.
//!
//! `.durable(durable)` makes an agent's run durable. If the process is killed and started again, the run continues from
//! its journal. A model response that had arrived is not requested again, and a tool call that had ended does not run
//! again.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use neuron_durable_sqlite::SqliteDurableContext;
//! use neuron_loop::{Agent, Conversation};
//! use neuron_tool::ToolRegistry;
//! use neuron_types::Provider;
//! # use neuron_testing::ScriptedProvider;
//!
//! /// Starts or continues the run. A process calls this at its first start and after a crash.
//! async fn work<P: Provider + 'static>(path: &Path, provider: Arc<P>) -> Result<String, Box<dyn std::error::Error>> {
//!     let tools = Arc::new(ToolRegistry::new());
//!     let durable = SqliteDurableContext::open(path, "run-42", provider.clone(), tools).await?;
//!     let start = durable.start("What is 2 + 2?").await?;
//!
//!     let agent = Agent::builder(provider).build();
//!     let result = agent.run(&mut Conversation::new(), start).durable(durable).await?;
//!     Ok(result.response)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("runs.db");
//! # let my_provider = Arc::new(ScriptedProvider::new(["It is 4."]));
//! assert_eq!(work(&path, my_provider.clone()).await?, "It is 4.");
//! // The second call takes the response from the journal.
//! assert_eq!(work(&path, my_provider.clone()).await?, "It is 4.");
//! # assert_eq!(my_provider.calls(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Requirements for a durable agent
//!
//! After a crash the agent runs again from its beginning. During this replay the journal returns the recorded responses
//! and tool results, and no model or tool is called. The agent must therefore send the same requests each time. Build
//! it with the same prompts, tools and options. If a request differs, the run ends with
//! [`NonDeterminism`](neuron_types::DurableError::NonDeterminism), and the journal stays unchanged.
//!
//! A tool declares by [`ToolEffect`](neuron_types::ToolEffect) whether it may run twice. The effect decides if a call
//! that was interrupted by a crash runs again. See [`SqliteDurableContext`].
//!
//! # Several processes
//!
//! Any number of processes on one machine may drive runs in the same database. Each process may send signals to any run
//! of the database. A database on a network file system is not supported.
//!
//! One context at a time holds a run. The runs of a killed process are free immediately, because the operating system
//! releases the locks of the process. A process that is stopped or hangs loses its runs when the
//! [lease](DurableOptions::lease) expires, after 30 seconds by default. Another context can then take over such a run.
//!
//! Each step checks that its context still holds the run before it begins, and again after a pause. A stopped process
//! that resumes after a takeover therefore starts no tool call, no retry and no model call. Its run ends with
//! [`JournalError::Superseded`].
//!
//! - A tool call counts as begun if the stopped process had begun it or was just about to begin it. The tool's effect
//!   decides if the call runs again.
//! - A tool that blocks its thread for longer than the lease loses the run.
//! - A process that is stopped in the middle of a write to the database blocks all other writers until it resumes or
//!   is killed. A write takes milliseconds.
//! - On Windows a locked file cannot be read. A stopped process therefore keeps its runs until it resumes or is killed.
//! - Leases are measured by the system clock and by the modification time of a file. If the file system rounds these
//!   times, set a lease of several times the rounding.
//!
//! # Approvals
//!
//! [`SqliteRuns::list`] and [`SqliteRuns::inspect`] return summaries of runs. If a run waits for an approval,
//! [`RunSummary::waits_for`] has the tool calls as a [`PendingApproval`](neuron_types::PendingApproval), without the
//! conversation. An example as JSON:
//!
//! ```
//! # use neuron_types::PendingApproval;
//! # use serde_json::Value;
//! # let json = r#"
//! {
//!   "version": 1,
//!   "run_id": "run-42",
//!   "run_number": 0,
//!   "turn": 3,
//!   "turns": 4,
//!   "requests": 4,
//!   "tool_calls": 6,
//!   "usage": { "input_tokens": 1200, "output_tokens": 80 },
//!   "tool_usage": { "input_tokens": 0, "output_tokens": 0 },
//!   "messages": [],
//!   "calls": [
//!     {
//!       "call": { "id": "call_1", "name": "pay", "input": { "sum": 3 } },
//!       "reason": "may it pay?"
//!     }
//!   ]
//! }
//! # "#;
//! # let pending: PendingApproval = serde_json::from_str(json)?;
//! # assert_eq!(serde_json::to_value(&pending)?, serde_json::from_str::<Value>(json)?);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! | field | holds |
//! |---|---|
//! | `version` | the version of the JSON format |
//! | `run_id`, `run_number` | the id of the agent's run, and its number among the runs of the agent, from 0 |
//! | `turn`, `turns`, `requests`, `tool_calls` | the current turn, and the numbers of model responses, of model calls and of tool calls so far |
//! | `usage`, `tool_usage` | the tokens used so far, and the part of them that tools used |
//! | `messages` | always empty here, because the conversation is in the journal |
//! | `calls` | the pending calls, in the order of the model's response |
//! | `calls[].call` | the tool call: its id, to which a decision refers, the tool's name and the arguments |
//! | `calls[].reason` | the question of the permission policy |
//! | `calls[].nested` | the pending calls of a sub-agent, in the same format, if the sub-agent inside this call waits |
//! | `calls[].signature` | `code` and `expires_at`, if the agent signs its questions |
//!
//! Send [`ApprovalDecisions`](neuron_types::ApprovalDecisions) as the signal that [`WaitEvent::Approval`] names. After
//! the deadline of a wait, the summary does not contain the wait any more, even if no process drives the run. A signal
//! for that wait then fails with [`RunsError::Ended`]. Use [`SqliteRuns::revive`] to continue the run with late
//! decisions. A [stalled](RunStatus::Stalled) run that was waiting is listed with its wait, and still accepts
//! decisions.
//!
//! # Damage and loss
//!
//! Each row has a checksum, and the journal detects lost commits. If a file of the journal was changed, truncated or
//! removed, a read returns an error or the correct latest state. To continue from a backup, or without the lost
//! commits, call [`accept_older`].
//!
//! # Tests under faults
//!
//! `neuron_testing::faults` runs an agent a thousand times with crashes and errors of the model.
//!
//! In this example, a tool charges a credit card. The tool declares that a call may run again, so it passes the
//! idempotency key of the call to the payment service.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! use neuron_durable_sqlite::SqliteDurableContext;
//! use neuron_loop::{Agent, Conversation};
//! use neuron_testing::faults::FaultTest;
//! use neuron_testing::{Reply, ScriptedProvider};
//! use neuron_tool::ToolRegistry;
//! use neuron_types::{
//!     BoxError, RetryPolicy, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
//! };
//! use serde_json::{Value, json};
//!
//! /// The charges of a fake payment service by their idempotency keys.
//! type Charges = Arc<Mutex<BTreeMap<String, String>>>;
//!
//! struct Charge(Charges);
//!
//! impl ToolDyn for Charge {
//! #    fn name(&self) -> &str { "charge" }
//! #    fn definition(&self) -> ToolDefinition {
//! #        ToolDefinition {
//! #            name: "charge".into(),
//! #            title: None,
//! #            description: "Charges the card of the customer".into(),
//! #            input_schema: json!({"type": "object"}),
//! #            output_schema: None,
//! #            annotations: None,
//! #            cache_control: None,
//! #        }
//! #    }
//!     // ...
//!     fn effect(&self) -> ToolEffect {
//!         ToolEffect::Idempotent
//!     }
//!
//!     fn call_dyn<'a>(
//!         &'a self,
//!         input: Value,
//!         ctx: &'a ToolContext,
//!     ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
//!         Box::pin(async move {
//!             let mut charges = self.0.lock().map_err(|_| ToolError::ExecutionFailed("poisoned".into()))?;
//!             charges.insert(ctx.idempotency_key.clone(), format!("charge {}", input["cents"]));
//!             Ok(ToolOutput::text("charged"))
//!         })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("runs.db");
//! let report = FaultTest::new()
//! #   .runs(60)
//!     .run(async |trial| {
//!         // The world outlives a crash.
//!         let charges = Charges::default();
//!         let model = ScriptedProvider::new([
//!             Reply::tool_call("call_1", "charge", json!({"cents": 500})),
//!             Reply::text("Your card was charged."),
//!         ]);
//!         let seen = charges.clone();
//!         trial.effects(move || seen.lock().map(|all| all.values().cloned().collect()).unwrap_or_default());
//!         trial
//!             .execute(async || {
//!                 // This is the process, which begins again after a crash.
//!                 let provider = Arc::new(trial.provider(model.clone()));
//!                 let mut tools = ToolRegistry::new();
//!                 tools.register_dyn(trial.tool(Charge(charges.clone())));
//!                 let tools = Arc::new(tools);
//!                 let durable =
//!                     SqliteDurableContext::open(&path, &trial.run_id(), provider.clone(), tools.clone()).await?;
//!                 let start = durable.start("Charge 5 dollars").await?;
//!                 // Shorter delays than in production, so that the test is fast.
//!                 let retries =
//!                     RetryPolicy { initial_interval: Duration::from_millis(1), ..RetryPolicy::default() };
//!                 let agent = Agent::builder(provider)
//!                     .tools(ToolRegistry::clone(&tools))
//!                     .config(|config| config.llm_activity.retry_policy = Some(retries))
//!                     .build();
//!                 let run = agent.run(&mut Conversation::new(), start).durable(trial.context(durable)).await?;
//!                 Ok::<_, BoxError>(run.response)
//!             })
//!             .await;
//!     })
//!     .await;
//! report.assert_kept();
//! # assert!(report.crashes > 10, "{report}");
//! # Ok(())
//! # }
//! ```
//!
//! # Space
//!
//! Each value is stored once. The arguments of a tool call, for example, are stored only with the model's response.
//! During a run, SQLite's write-ahead log may take some megabytes beside the database. At the end of the run the log is
//! moved into the database file.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | a run, its stored data, the recovery of an unfinished tool call | [`SqliteDurableContext`] |
//! | options of a run | [`SqliteRuns::run`], [`RunBuilder::options`], [`DurableOptions`] |
//! | driving all runs of a database, with a limit of concurrent runs | [`SqliteRuns::pool`], [`RunBuilder::submit`] |
//! | driving one run through all its executions | [`SqliteDurableContext::drive`] |
//! | signals from any process | [`SqliteRuns::signal`] |
//! | state, wait and steps of a run | [`SqliteRuns::list`], [`SqliteRuns::inspect`] |
//! | listing, inspecting, signalling and cancelling runs of any durable engine | [`DurableRuns`] |
//! | cancelling a run | [`SqliteRuns::cancel`] |
//! | retrying a run after the cause of its error was fixed | [`SqliteRuns::retry`] |
//! | decisions that arrive after the deadline | [`SqliteRuns::revive`] |
//! | runs that outlive a release of the agent | [`DurableOptions::agent_version`], [`DurableOptions::changed_agent`] |
//! | removing runs | [`SqliteRuns::delete`], [`SqliteRuns::prune`] |
//! | durability after a power failure, the timeout for a locked database | [`SqliteOptions`] |
//! | errors | [`JournalError`] |
//!
//! The replay of a journal with 100 steps or more is logged through [`tracing`] at level `INFO`, with the fields `run`,
//! `replayed` and `of`. The replay is logged at its beginning, about every second, and at its end.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod context;
mod durable_runs;
mod effect_row;
mod effects;
mod pool;
mod run_builder;
mod run_info;
mod runs;

mod journal;
mod model_step;
mod tool_batch;
mod values;
mod waits;

mod checksum;
mod inspect;
mod lock;
mod notices;
mod outcome;
mod parking;
mod removal;
mod retry;
mod revive;
mod run_row;
mod schema;
mod signal_row;
mod standing;
mod step_row;
mod texts;
mod version;

mod error;

#[cfg(test)]
mod test_support;
#[cfg(test)]
mod versions;

pub use context::SqliteDurableContext;
pub use error::JournalError;
pub use neuron_durable::{
    ChangedAgent, DurableOptions, DurableRuns, RunError, RunOutcome, RunStatus, RunSummary,
    RunsError, UnknownOutcome, WaitEvent, WaitsFor,
};
pub use neuron_sqlite::{SqliteError, SqliteOptions, Synchronous, accept_older};
pub use pool::RunPool;
pub use run_builder::RunBuilder;
pub use run_info::{QueuedSignal, RunDetails, StepInfo, StepKind};
pub use runs::SqliteRuns;
