//! Durable runs of AI agents on [Restate](https://restate.dev). A run survives the crash of its process.
//!
//! Restate keeps a journal of each run and calls an [`AgentService`], which hosts the agent. If the process is killed,
//! each run continues in another process, or in the same process after a restart. A model call that has ended is not
//! made again. A tool that must not run twice does not run again.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use neuron_durable_restate::AgentService;
//! use neuron_loop::Agent;
//! use neuron_tool::ToolRegistry;
//! use tokio::net::TcpListener;
//!
//! # type Provider = neuron_testing::ScriptedProvider;
//! # fn provider() -> Provider { Provider::new(["Hi!"]) }
//! # fn tools() -> ToolRegistry { ToolRegistry::new() }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent =
//!     Agent::builder(provider()).tools(tools()).system_prompt("You help customers.").build();
//! let service = AgentService::new("support", Arc::new(provider()), Arc::new(tools()), agent);
//! let listener = TcpListener::bind("127.0.0.1:9080").await?;
//! service.serve(listener, tokio::signal::ctrl_c()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! With a Restate server on its usual ports:
//!
//! ```text
//! # Register the service's address. Repeat this for each version of the code and of this crate.
//! curl localhost:9070/deployments --json '{"uri": "http://localhost:9080"}'
//!
//! # Start a run and wait for its outcome. The input is a text or the JSON of a `Start`.
//! curl localhost:8080/support/run --json '"My parcel has not come."'
//!
//! # Start a run without waiting. The response has the run's id. Get the outcome later.
//! curl localhost:8080/support/run/send --json '"My parcel has not come."'
//! curl localhost:8080/restate/invocation/$ID/attach
//!
//! # Get the calls that require approval, and send the decision.
//! curl -X POST localhost:8080/support.waiting/$ID/pending
//! curl localhost:8080/support/signal --json '{"run_id": "'$ID'", "name": "approval",
//!     "value": {"calls": {"call_1": {"type": "approve"}}}}'
//!
//! # Cancel the run.
//! curl -X PATCH localhost:9070/invocations/$ID/cancel
//! ```
//!
//! In Rust, use the client in `restate_sdk::ingress` to start runs and get their outcomes, and [`RestateRuns`] for all
//! other operations. Repeated requests with the same `idempotency-key` header start only one run. The example
//! `restate_agent` of this crate hosts an agent on a real server, and kills the process of a run.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | hosting an agent, alone or beside other services | [`AgentService`] |
//! | size limits, leases, versions, continuing as new | [`DurableOptions`] |
//! | timeouts, the environment of tools | [`RestateOptions`] |
//! | the outcome of a run | [`RunOutcome`] |
//! | listing, inspecting, signalling, cancelling and reviving runs | [`RestateRuns`] |
//! | the durable context that the agent receives | [`RestateDurableContext`] |
//! | the trait of a hosted agent | [`DurableAgent`](neuron_types::DurableAgent) |
//!
//! # Steps on Restate
//!
//! - **Model calls** are steps of the run's invocation. Retries, timeouts and live deltas work as in a
//!   [`LocalDurableContext`](neuron_durable::LocalDurableContext). The response or error is journaled. If the process
//!   dies during a model call, the call is made again.
//! - **Tool calls** are invocations of their own. They are started and awaited in call order. The calls of a parallel
//!   batch run concurrently, on any process that serves the agent. An
//!   [`AtMostOnce`](neuron_types::ToolEffect::AtMostOnce) call is journaled before it begins. If it does not return, it
//!   never runs again, and [`DurableOptions::unknown_outcome`] decides its result. Other calls run again with the same
//!   [idempotency key](neuron_types::ToolContext::idempotency_key).
//! - **Signals** are sent to a run by its id, through the handler `signal`. A signal that arrives before the wait is
//!   queued. Signals with the same name are received in order. A signal to a run that has ended is rejected with status
//!   410 and the reason. The end of a killed run is not registered. The handler therefore accepts signals to that run,
//!   and [`RestateRuns`] rejects them.
//! - **Approvals** need the loop's `approval_signal`, which names a signal. While the run waits, the handler `pending`
//!   of the object `support.waiting` returns [the pending calls](#pending-calls-as-json). After the deadline the
//!   handler returns null, and decisions are rejected. The run ends with the error `ApprovalRequired` and can be
//!   [revived](#late-decisions).
//! - **Time**: [`now`](neuron_types::DurableContext::now) returns the time at which the latest step or wait ended.
//! - **Continuing as new**: after [`DurableOptions::continue_after`] steps the run continues in a new invocation. The
//!   previous invocation waits for the new one, forwards signals to it, and returns its outcome. Cancelling the first
//!   invocation cancels all of them. The run keeps the id of its first invocation.
//! - **Cancellation** (`409`): a run that waits for tools, a signal or a sleep notices it immediately. A run that waits
//!   for the model notices it after the response. A tool in the process of the run is told by its
//!   [`cancellation_token`](neuron_types::ToolContext::cancellation_token). A tool in another process runs to its end.
//!   A cancelled run has no outcome. If the invocation of a single tool is cancelled or killed, the run ends with an
//!   error.
//!
//! # Pending calls as JSON
//!
//! `POST /support.waiting/$ID/pending` returns the calls that require approval, or null if the run does not wait for
//! decisions. Send the [decisions](neuron_types::ApprovalDecisions) through the handler `signal`, under the name in the
//! field `signal`. The field `pending` is a [`PendingApproval`](neuron_types::PendingApproval) without its messages. If
//! an agent inside a call waits, its calls are in the `nested` field of that call.
//!
//! ```
//! # use neuron_types::PendingApproval;
//! let shown = r#"{
//!     "signal": "approval",
//!     "pending": {
//!         "version": 1,
//!         "run_id": "inv_1jBYtRjjtGLN5RwBAhfldnsWCHgYQaXvHM",
//!         "run_number": 0,
//!         "turn": 0,
//!         "turns": 1,
//!         "messages": [],
//!         "calls": [{
//!             "call": {"id": "call_1", "name": "wire", "input": {"amount": 100}},
//!             "reason": "may it be wired?"
//!         }]
//!     },
//!     "since": "2026-11-25T10:17:52.416Z",
//!     "deadline": "2026-11-25T10:27:52.416Z"
//! }"#;
//! let shown: serde_json::Value = serde_json::from_str(shown)?;
//! let pending: PendingApproval = serde_json::from_value(shown["pending"].clone())?;
//! assert_eq!(pending.calls[0].call.name, "wire");
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! # Late decisions
//!
//! The outcome of a run that ended with `ApprovalRequired` has the whole state of the run. Use
//! [`revive`](neuron_durable::DurableRuns::revive) to continue it as a new run, with the decisions and the same
//! idempotency keys. Send further signals to the id that `revive` returns. A run is revived only once, and a second
//! call returns the same id.
//!
//! A run whose outcome exceeds 16 MiB has no messages and cannot be revived. Queued signals of the old run are not
//! passed to the new run. The new run is pinned to the version of the code that starts it.
//!
//! # Operating
//!
//! [`RestateRuns`] implements [`DurableRuns`] with both ports of Restate. Each run writes
//! its wait, its agent version and its end to a register, the object `support.waiting`. One query therefore lists all
//! runs.
//!
//! A register entry is removed a day after the end of its run, by a scheduled call of the handler `forget`. A killed
//! run cannot schedule this call. The first `list` after Restate has deleted the killed run removes its entry. A run
//! whose entry or outcome cannot be parsed is listed as [damaged](neuron_durable::RunStatus::Damaged).
//!
//! A run whose agent changed is [stalled](neuron_durable::RunStatus::Stalled) as soon as Restate has tried it with the
//! changed agent. A suspended run is tried when its wait ends. If an agent inside a call changed, the parent run is
//! stalled. If Restate has paused a run, the reason in its summary ends with the request that resumes it.
//!
//! # Stopped processes
//!
//! A process may be stopped or hang, or its machine may sleep, while Restate gives its invocations to another process.
//! Therefore each handler has a [lease](DurableOptions::lease). After a pause that is longer than the lease, the
//! process drops its handlers before they are polled again. It starts no tool, no retry and no model call. Restate
//! calls the handlers again, in this process or another one. If an at-most-once call had begun, its outcome is unknown.
//!
//! An at-most-once call begins after Restate has confirmed that its step is journaled. If a process has lost the
//! invocation, for example through a network failure, it therefore does not begin the call. A pause during a single
//! poll is noticed after that poll.
//!
//! # When the code changes
//!
//! A run may have begun with other code, and its steps may differ from its journal. Restate detects a different order
//! of steps. This crate detects a different input of a step, for example another system prompt, and a record in an
//! unknown format of a newer release.
//!
//! In both cases the invocation fails with a text that names the difference, and nothing is journaled. Restate retries
//! the invocation up to 70 times with growing pauses, and then pauses it. When the old code is deployed again, the run
//! continues. A paused run first needs `PATCH /invocations/$ID/resume`. If the old code is gone, kill the run. A
//! cancellation has no effect, because the run fails before it notices the cancellation. A panic of the agent's code is
//! treated in the same way.
//!
//! Restate recommends that the old deployment stays at an address of its own until its runs have ended. However, the
//! tools of these runs, and runs that continue as new, are called at the newest deployment.
//!
//! With [`DurableOptions::agent_version`] each run is pinned to a version:
//!
//! - Code of another version, or without a version, fails with a text that names both versions, before it writes to the
//!   journal.
//! - With [`ChangedAgent::GoOn`](neuron_durable::ChangedAgent) the run continues, and its next step pins the run to the
//!   new version. From then on code of the old version fails. Keep `GoOn` until these runs have ended, because each
//!   invocation is also checked against the version with which it began.
//! - Tools are not checked, and run in any version.
//! - A run that continues as new keeps its version, but Restate calls the newest deployment. Resume the run at the old
//!   deployment with `PATCH /invocations/$ID/resume?deployment=$DEPLOYMENT`, or allow the new code with `GoOn`.
//! - Runs that began without a version are not checked.
//!
//! A replay of more than 100 steps is logged at level `INFO` when it ends and the first new step begins.
//!
//! # Limits
//!
//! - Restate accepts messages of up to 32 MiB. A model response or recorded value that is longer than
//!   [`DurableOptions::record_limit`] becomes an error. The model call is not repeated. If an outcome exceeds 16 MiB,
//!   its conversation is left out. A run whose state exceeds 30 MiB does not continue as new.
//! - A step may take up to [`RestateOptions::longest_step`], including all attempts. The default is one hour. Restate
//!   interrupts a longer step and begins it again. Set a value above `start_to_close_timeout` times the number of
//!   attempts in the loop's activity options.
//! - Anyone who can connect to the service's port can run tools without the agent. Allow only Restate to connect, or
//!   verify Restate's signature with [`AgentService::bind`]. On Restate's own port, only `run`, `signal` and `pending`
//!   can be called.
//! - The journal contains the conversation, for a day after the run by default. It contains only those environment
//!   variables that [`RestateOptions::environment`] names.
//!
//! # Versions
//!
//! Made for `restate-sdk` 0.13, which is [re-exported](restate_sdk), and tested with Restate server 1.7.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod options;
mod outcome;
mod service;

mod context;

mod definition;
mod host;

mod batch;
mod continuation;
mod fate;
mod inbox;
mod journal;
mod journal_clock;
mod lease;
mod pin;
mod register;
mod running;
mod waits;

mod plain_http;
mod runs;

mod failure;
mod invocation_id;
mod payload;

pub use context::RestateDurableContext;
pub use neuron_durable::{
    ChangedAgent, DurableOptions, DurableRuns, RunError, RunOutcome, RunStatus, RunSummary,
    RunsError, UnknownOutcome, WaitEvent, WaitsFor,
};
pub use options::RestateOptions;
pub use plain_http::PlainHttp;
pub use runs::RestateRuns;
pub use service::{AgentService, InvalidServiceName};

/// The Restate SDK, in the version that [`AgentService::bind`] uses.
pub use restate_sdk;
