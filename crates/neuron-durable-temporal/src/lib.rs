//! Runs of AI agents that survive a crash, on Temporal.
//!
//! An [`AgentWorker`] hosts an agent on a task queue. Kill it at any moment: another worker, or the same
//! one started again, goes on where it was. No answer of the model that was there is paid twice, and no
//! tool runs twice that must not.
//!
//! ```no_run
//! use neuron_durable_temporal::{AgentRuns, AgentWorker, connect};
//! use neuron_loop::Agent;
//! use neuron_tool::ToolRegistry;
//! use neuron_types::Provider;
//! # fn my_provider() -> impl Provider + 'static { neuron_testing::ScriptedProvider::new(["Hi!"]) }
//! # fn my_tools() -> ToolRegistry { ToolRegistry::new() }
//!
//! # async fn host() -> Result<(), Box<dyn std::error::Error>> {
//! let client = connect("http://127.0.0.1:7233", "default").await?;
//! let agent = Agent::builder(my_provider()).tools(my_tools()).system_prompt("Be nice.").build();
//! AgentWorker::builder(client, "support", my_provider(), my_tools(), agent).build()?.run().await?;
//! # Ok(())
//! # }
//!
//! // Elsewhere, in a web server for instance:
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let runs = AgentRuns::new(connect("http://127.0.0.1:7233", "default").await?, "support");
//! let run = runs.start("ticket-17", "My invoice is wrong.").await?;
//! println!("{}", run.result().await?.result.response);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | the worker that owns provider and tools, and its shutdown | [`AgentWorker`] |
//! | starting runs, signals, what a run waits for, its end | [`AgentRuns`], [`AgentRun`] |
//! | local or regular calls of the model, retries, heartbeats, sizes, continuing as new | [`TemporalOptions`] |
//! | what becomes of what, in a workflow of your own | [`TemporalDurableContext`] |
//! | payloads that are too long for the server | [`PayloadStore`] |
//! | tests that new code goes on with old runs | [`replay_history`] |
//! | lists of runs, decisions that come late, leases, versions | [Operating runs](#operating-runs) |
//!
//! # The compiler
//!
//! Temporal's SDK needs Rust 1.92: this crate alone needs it too.
//!
//! # How long a recovery takes
//!
//! What a killed worker did is taken up again when the server has waited long enough for it:
//!
//! | what it did | the server waits for | default |
//! |---|---|---|
//! | it drove the run (or made a local call of the model) | [`AgentRuns::task_timeout`] | 10 s |
//! | it had the run in its memory, and something happens | [`AgentWorkerBuilder::sticky_timeout`] | 5 s |
//! | it ran a tool, or an activity for the model | the loop's heartbeat timeout, or [`TemporalOptions::heartbeat_timeout`] | 10 s |
//!
//! A shorter time recovers faster, and takes a worker for lost that is only slow. The time limit of an
//! attempt holds in the worker itself, as without an engine; the server's is five seconds longer.
//!
//! # Limits
//!
//! - The server takes payloads of 2 MiB and, by default, warns at histories of 10 MiB and ends those of
//!   50 MiB or 51 200 events. What would be longer than [`TemporalOptions::record_limit`] is an error that
//!   says so. Runs continue as new executions when the server suggests it, from some four thousand
//!   events or four megabytes on; a conversation longer than the limit needs a
//!   [`PayloadStore`] for that, and without one the run ends there with an error that says so.
//! - Deltas of streams come when the answer is whole.
//! - A run that is not terminated waits for ever for a worker whose code fits.
#![doc = ""]
#![doc = include_str!("operating.md")]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod context;
mod runs;
mod worker;

mod connection;
mod replay;

mod options;
mod payload_store;

mod activities;
mod agent_version;
mod heartbeat;
mod local_calls;
mod mailbox;
mod outcome;
mod own_wakes;
mod panic;
mod retry;
mod signal_input;
mod sub_agent;
mod wait;
mod workflow;

mod error;
mod json;

pub use activities::AgentActivities;
pub use connection::connect;
pub use context::TemporalDurableContext;
pub use error::TemporalError;
pub use json::Json;
pub use mailbox::{HasMailbox, Mailbox, Signal};
pub use options::{ModelCalls, TemporalOptions};
pub use outcome::{RunFailure, RunOutcome};
pub use payload_store::{FilePayloadStore, PayloadStore};
pub use replay::replay_history;
pub use runs::{AgentRun, AgentRuns};
pub use sub_agent::SubAgentWorkflow;
pub use worker::{AgentWorker, AgentWorkerBuilder, ShutdownHandle};
pub use workflow::{AgentWorkflow, RunInput};

/// The client that this crate's types take, so that its version is the right one.
pub use temporalio_client;
/// The SDK, for a workflow and a worker of your own.
pub use temporalio_sdk;
