//! Durable runs of AI agents on Temporal. A run survives the crash of its worker.
//!
//! An [`AgentWorker`] hosts an agent on a task queue. If the worker is killed, its runs continue on another worker, or
//! when the worker is restarted. A model response that has reached the server is not requested again. A tool that must
//! not run twice does not run again.
//!
//! ```no_run
//! use neuron_durable_temporal::{TemporalRuns, AgentWorker, connect};
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
//! // In another process, for example a web server:
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let runs = TemporalRuns::new(connect("http://127.0.0.1:7233", "default").await?, "support");
//! let run = runs.start("ticket-17", "My invoice is wrong.").await?;
//! println!("{}", run.outcome().await?.into_result()?.response);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | the worker that owns provider and tools, and its shutdown | [`AgentWorker`] |
//! | starting and signalling a run, its pending calls, its outcome | [`TemporalRuns`], [`TemporalRun`] |
//! | heartbeats, size limits, versions, continuing as new | [`DurableOptions`] |
//! | local model calls or activities, retries, the environment of tools | [`TemporalOptions`] |
//! | mapping of an agent's steps to Temporal, custom workflows | [`TemporalDurableContext`] |
//! | payloads that are too long for the server | [`PayloadStore`] |
//! | tests that new code can continue old runs | [`replay_history`] |
//! | lists of runs, late decisions, leases, versions | [Operating runs](#operating-runs) |
//!
//! # The compiler
//!
//! This crate needs Rust 1.92, because Temporal's SDK does. The other crates of neuron support older compilers.
//!
//! # Recovery time
//!
//! A run continues after the server has noticed that its worker is lost. The time depends on the interrupted work:
//!
//! | the lost worker | time limit | default |
//! |---|---|---|
//! | was driving the run, or making a local model call | [`TemporalRuns::task_timeout`] | 10 s |
//! | had the idle run in its memory, and an event arrives for the run | [`AgentWorkerBuilder::sticky_timeout`] | 5 s |
//! | was running a tool, or an activity that calls the model | the loop's heartbeat timeout, or [`DurableOptions::lease`] | 10 s |
//!
//! With a shorter limit a run recovers faster, but the server also considers a slow worker lost. The timeout of a
//! single attempt is enforced by the worker. The server's timeout for the attempt is five seconds longer.
//!
//! # Limits
//!
//! - The server accepts payloads of up to 2 MiB. By default it warns about histories of 10 MiB, and ends runs whose
//!   history has 50 MiB or 51,200 events.
//! - A record that is longer than [`DurableOptions::record_limit`] becomes an error that names the limit.
//! - A run continues as a new execution when the server suggests it, after about 4,000 events or 4 MB. If the
//!   conversation is longer than the record limit, this needs a [`PayloadStore`]. Without a store the run ends with an
//!   error.
//! - The deltas of a stream are sent only when the response is complete.
//! - If no worker has code that fits a run, the run waits until such a worker starts, or until it is terminated.
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
mod effects;
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
pub use neuron_durable::{
    ChangedAgent, DurableOptions, DurableRuns, RunError, RunOutcome, RunStatus, RunSummary,
    RunsError, UnknownOutcome, WaitEvent, WaitsFor,
};
pub use options::{ModelCalls, TemporalOptions};
pub use payload_store::{FilePayloadStore, PayloadStore};
pub use replay::replay_history;
pub use runs::{TemporalRun, TemporalRuns};
pub use sub_agent::SubAgentWorkflow;
pub use worker::{AgentWorker, AgentWorkerBuilder, ShutdownHandle};
pub use workflow::{AgentWorkflow, RunInput};

/// The Temporal client, in the version that this crate's types use.
pub use temporalio_client;
/// The Temporal SDK, in the version that this crate uses. It is needed for custom workflows and workers.
pub use temporalio_sdk;
