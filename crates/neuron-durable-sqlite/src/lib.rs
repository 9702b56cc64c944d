//! Runs of agents that survive a crash, on one machine, with a journal in a SQLite database and without a server.
//!
//! One line makes an agent durable. Kill the process at any moment and start it again: the run goes on where it
//! was. No answer of the model that had arrived is paid again, and no tool call that had ended runs again.
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
//! /// What a process does when it starts: the first time, and after a crash.
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
//! // Once more: the answer is in the journal.
//! assert_eq!(work(&path, my_provider.clone()).await?, "It is 4.");
//! # assert_eq!(my_provider.calls(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # What a durable agent must be
//!
//! The agent runs again from its beginning after a crash, and asks the journal instead of the model and the
//! tools until it is where it was. So it is built alike each time: the same prompts, tools and options lead to
//! the same requests. If they do not, the run ends with
//! [`NonDeterminism`](neuron_types::DurableError::NonDeterminism), and nothing is changed.
//!
//! A tool says by [`ToolEffect`](neuron_types::ToolEffect) whether it may run twice: what becomes of a call in
//! the middle of which the process was killed follows from it. See [`SqliteDurableContext`].
//!
//! # Several processes
//!
//! Any number of processes on one machine may have runs in one database, and send signals to each other's. It does not
//! work over a network file system.
//!
//! One context at a time holds a run. A killed process frees its runs at once, because the operating system frees its
//! locks. A process that is stopped or hangs loses its runs after a [lease](RunBuilder::lease), 30 seconds by default:
//! another context takes the run over. Each step proves that the run is still held before it begins, and again after a
//! pause. So a stopped process begins nothing once it goes on: no tool, no further attempt and no call of the model. Its
//! run ends with [`JournalError::Superseded`].
//!
//! - A call that the stopped process had begun, or was about to begin at that moment, stays begun. Whether it runs again
//!   follows from the tool's effect.
//! - A tool that blocks its thread for longer than the lease loses the run.
//! - A process that is stopped in the middle of a write to the database keeps all others from writing until it goes on or
//!   is killed. A write takes milliseconds.
//! - On Windows a locked file cannot be read, so a process that is stopped keeps its runs until it goes on or is killed.
//! - Leases are measured by the system's clock and by the time of a file. On a file system that rounds times, a lease is
//!   several times as long as they are rounded.
//!
//! # Approvals
//!
//! [`RunSummary::waits_for`] shows the calls on which a person decides as a
//! [`PendingApproval`](neuron_types::PendingApproval), in a list of all runs too. As JSON, without the conversation, it is:
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
//! | `version` | the version of this form |
//! | `run_id`, `run_number` | the id of the agent's run, and its number among the runs of the agent, from 0 |
//! | `turn`, `turns`, `requests`, `tool_calls` | the current turn, and the numbers of answers, of calls of the model and of tool calls so far |
//! | `usage`, `tool_usage` | the tokens so far, and the part of them that tools took |
//! | `messages` | always empty here: the journal has the conversation |
//! | `calls` | the calls, in the order of the model's answer |
//! | `calls[].call` | the id of the call, to which a decision refers, the tool and the arguments |
//! | `calls[].reason` | the question of the permission policy |
//! | `calls[].nested` | the calls of a sub-agent inside the call, in the same form, if it is the one that waits |
//! | `calls[].signature` | `code` and `expires_at`, if the agent signs its questions |
//!
//! [`ApprovalDecisions`](neuron_types::ApprovalDecisions) are sent as the signal that
//! [`WaitEvent::Approval`] names. A wait whose deadline has passed is not shown any more, whether or not a process drives
//! the run, and a signal for it is refused with [`RunsError::Ended`]. [`SqliteRuns::revive`] then lets the run go on
//! with late decisions. A run that stands still in a wait is listed with it, and takes its decisions.
//!
//! # Damage and loss
//!
//! Each row has a checksum, and the journal notices commits that are lost. A file of the journal that is changed, cut or
//! removed gives an error, or the exact state, and never an earlier one. To go on from a backup, or without what was lost,
//! call [`accept_older`].
//!
//! # Space
//!
//! A record is stored once, where it was made: tool calls do not repeat the arguments that the model's answer
//! holds. While a run goes on, SQLite's log may take some megabytes beside the database; at its end it is
//! brought into the file.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | a run, what is stored of it, what becomes of an unfinished tool call | [`SqliteDurableContext`] |
//! | options of a run | [`SqliteRuns::run`], [`RunBuilder`] |
//! | driving all runs of a database, so many at a time | [`SqliteRuns::pool`], [`RunBuilder::submit`] |
//! | driving one run through all its executions | [`SqliteDurableContext::drive`] |
//! | signals from any process | [`SqliteRuns::signal`] |
//! | state, wait and steps of a run | [`SqliteRuns::list`], [`SqliteRuns::inspect`] |
//! | the same for every durable engine | [`DurableRuns`] |
//! | cancelling a run | [`SqliteRuns::cancel`] |
//! | going on after an error whose cause is gone | [`SqliteRuns::retry`] |
//! | decisions that come after the deadline | [`SqliteRuns::revive`] |
//! | runs that outlive a release of the agent | [`RunBuilder::agent_version`], [`RunBuilder::changed_agent`] |
//! | removing runs | [`SqliteRuns::delete`], [`SqliteRuns::prune`] |
//! | what a power failure may take, how long to wait for others | [`SqliteOptions`] |
//! | what goes wrong | [`JournalError`] |
//!
//! A journal with many steps reports its replay at level `INFO` of [`tracing`], with the fields `run`, `replayed` and `of`:
//! at its beginning, about every second, and at its end.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod context;
mod durable_runs;
mod pool;
mod run_builder;
mod run_info;
mod runs;

mod journal;
mod model_step;
mod tool_batch;
mod values;
mod waits;

mod inspect;
mod lock;
mod notices;
mod parking;
mod removal;
mod retry;
mod revive;
mod run_row;
mod schema;
mod signal_row;
mod standing;
mod step_row;
mod sum;
mod texts;
mod version;

mod error;

#[cfg(test)]
mod test_support;
#[cfg(test)]
mod versions;

pub use context::SqliteDurableContext;
pub use error::JournalError;
pub use neuron_runtime::{ChangedAgent, DurableRuns, RunsError, UnknownOutcome};
pub use neuron_sqlite::{SqliteError, SqliteOptions, Synchronous, accept_older};
pub use pool::RunPool;
pub use run_builder::RunBuilder;
pub use run_info::{
    QueuedSignal, RunDetails, RunOutcome, RunStatus, RunSummary, StepInfo, StepKind, WaitEvent,
    WaitsFor,
};
pub use runs::SqliteRuns;
