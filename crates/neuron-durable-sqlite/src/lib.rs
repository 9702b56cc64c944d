//! Runs of agents that survive a crash, on one machine: a journal in a SQLite database, without a server.
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
//! Any number of processes on one machine may have runs in one database, and send signals to each other's. One
//! context at a time drives a run; a lock of the operating system sees to it, which a killed process does not
//! hold. It does not work over a network file system.
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
//! | runs that were interrupted, from one call to the next | [`SqliteDurableContext::drive`], [`SqliteRuns::unfinished`] |
//! | signals from any process | [`SqliteRuns::signal`] |
//! | what a run does, did and waits for | [`SqliteRuns::list`], [`SqliteRuns::inspect`] |
//! | going on after an error whose cause is gone | [`SqliteRuns::retry`] |
//! | removing runs | [`SqliteRuns::delete`], [`SqliteRuns::prune`] |
//! | what a power failure may take, how long to wait for others | [`SqliteOptions`] |
//! | what goes wrong | [`JournalError`] |

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
mod waits;

mod inspect;
mod lock;
mod notices;
mod parking;
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
