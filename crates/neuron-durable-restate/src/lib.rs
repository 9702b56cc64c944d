//! AI agents whose runs survive crashes, hosted on [Restate](https://restate.dev).
//!
//! Kill the process at any moment, start it again, here or on another machine, and each run goes on where
//! it was: no call of the model that has ended is paid for again, and no tool that must not runs twice.
//! Restate keeps a journal of each run; an [`AgentService`] is what it calls.
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
//! # Once for each version of the code, and of this crate: tell the server where the service is.
//! curl localhost:9070/deployments --json '{"uri": "http://localhost:9080"}'
//!
//! # A run, and its outcome. Instead of a text it may be a whole `Start`.
//! curl localhost:8080/support/run --json '"My parcel has not come."'
//!
//! # A run that nobody waits for: its id, and later its outcome.
//! curl localhost:8080/support/run/send --json '"My parcel has not come."'
//! curl localhost:8080/restate/invocation/$ID/attach
//!
//! # What it waits for, if calls need an approval, and the decision.
//! curl -X POST localhost:8080/support.waiting/$ID/pending
//! curl localhost:8080/support/signal --json '{"run_id": "'$ID'", "name": "approval",
//!     "value": {"calls": {"call_1": {"type": "approve"}}}}'
//!
//! # Its end, at once.
//! curl -X PATCH localhost:9070/invocations/$ID/cancel
//! ```
//!
//! In Rust, `restate_sdk::ingress` has a client for runs and their outcomes, and [`AgentRuns`] is the rest. With an
//! idempotency key, a header of that name, the same run is begun once however often it is asked for. The example
//! `restate_agent` of this crate shows all of it on a real server, with a process that is killed.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | hosting an agent, alone or beside services of yours | [`AgentService`] |
//! | sizes, time limits, leases, versions, the environment of tools, continuing as new | [`RestateOptions`] |
//! | what a run answers | [`RunOutcome`] |
//! | listing, inspecting, signalling, cancelling and reviving runs | [`AgentRuns`] |
//! | the durable context that the agent is given | [`RestateDurableContext`] |
//! | the agent's side of it | [`DurableAgent`](neuron_types::DurableAgent) |
//!
//! # What becomes of each step
//!
//! - **A call of the model** is a step of the run's invocation: its retries, time limits and live deltas are
//!   those of a [`LocalDurableContext`](neuron_runtime::LocalDurableContext), and its answer or error is
//!   journaled. Who dies during the call makes it again.
//! - **Tools** are invocations of their own, begun in the order of the calls and awaited in it; those of a
//!   parallel batch run at the same time, on any process that serves the agent. A tool that is
//!   [`AtMostOnce`](neuron_types::ToolEffect::AtMostOnce) is journaled before it begins: if it did not
//!   return, nobody runs it again, and [`RestateOptions::unknown_outcome`] says what the run does. Others
//!   run again with the same [idempotency key](neuron_types::ToolContext::idempotency_key).
//! - **Signals** reach a run through the handler `signal`, by the run's id. One that comes early waits;
//!   several of one name are handed out in order. A signal to a run that has ended is refused with status 410 and the
//!   reason. A killed run cannot say that it ended: the handler takes its signals, and [`AgentRuns`] refuses them.
//! - **Approvals**: name a signal with the loop's `approval_signal`. While the run waits, the handler `pending` of the
//!   object `support.waiting` returns [the calls](#what-a-person-is-shown). After the deadline it returns null, and a
//!   decision is refused. The run ends with the error `ApprovalRequired` and can be [revived](#late-decisions).
//! - **Time**: [`now`](neuron_types::DurableContext::now) is when the newest step or wait ended.
//! - **Continuing as new**: after [`RestateOptions::continue_after`] steps the run goes on in a new
//!   invocation. The one before waits for it, hands it the signals that come, and answers with its outcome;
//!   cancelling the first cancels all. The run keeps its id: that of the first.
//! - **Cancellation** (`409`) of the run is seen at once by a run that waits for tools, a signal or a sleep, and after
//!   the answer by one that waits for the model. Tools are told by their
//!   [`cancellation_token`](neuron_types::ToolContext::cancellation_token) where they run in the process of
//!   the run; elsewhere they come to their end. A cancelled run has no outcome. Whoever cancels or kills the
//!   invocation of one tool ends the run with an error.
//!
//! # What a person is shown
//!
//! `POST /support.waiting/$ID/pending` returns null, or the calls to decide on. `signal` is the name under which the
//! handler `signal` takes the [decisions](neuron_types::ApprovalDecisions). `pending` is a
//! [`PendingApproval`](neuron_types::PendingApproval) without its messages. The calls of an agent inside a call are in
//! the `nested` state of that call.
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
//! The outcome of a run that ended with `ApprovalRequired` has its whole state. With
//! [`revive`](neuron_runtime::DurableRuns::revive) the run goes on as a new run, with the decisions and the idempotency
//! keys of the run before. Signals go to the id that `revive` returns. A run is revived once. Whoever revives it again
//! gets the same id. An outcome over 16 MiB has no messages and cannot be revived. Signals that the run did not take are not
//! handed on, and the new run is pinned to the version of the code that takes it.
//!
//! # Operating
//!
//! [`AgentRuns`] implements [`DurableRuns`](neuron_runtime::DurableRuns) over both ports of Restate. The object
//! `support.waiting` is its register. The runs write their waits, their versions and their ends there, so that one query
//! lists all runs. An entry is removed a day after the end of its run, by a scheduled call of the handler `forget`. A
//! killed run cannot schedule it. Its entry is removed by the first list after Restate has forgotten the run. A run whose
//! entry or outcome cannot be read is listed as [damaged](neuron_runtime::RunStatus::Damaged).
//!
//! A run whose agent changed is [stalled](neuron_runtime::RunStatus::Stalled) as soon as Restate has tried it with the
//! changed agent. A run that is put aside while it waits is tried when its wait ends. If an agent inside a call changed, the
//! run around it is stalled. The reason of a run that Restate has paused ends with the request that resumes it.
//!
//! # Processes that stand still
//!
//! A process may be stopped or hang, or its machine may sleep, and it may go on after Restate has called another one. Therefore each handler holds a
//! [lease](RestateOptions::lease). After a longer pause the process drops what it did before it polls it again. It
//! begins no tool, no further attempt and no call of the model. Restate calls the handler again, there or elsewhere. The
//! outcome of a call that must not run twice, and had begun, is unknown then.
//!
//! Before such a call begins, Restate has confirmed that its step is journaled. So a process that has lost the
//! invocation without a pause, because the network is down, does not begin it either. A pause in the midst of one poll
//! is seen after the poll.
//!
//! # When the code changes
//!
//! A run that began with other code may ask for something else than its journal holds. Restate notices other
//! steps; other input of a step, another system prompt say, is noticed here, by a digest in the step's
//! record. So is a record that a newer release wrote in a form unknown to this one. Either way the invocation
//! fails with a text that says what differs, and nothing is journaled. Restate tries it again, up to 70 times
//! and ever more rarely, and then pauses it. With the old code back it goes on, a paused one after `PATCH
//! /invocations/$ID/resume`. Else kill it, since it does not get to where it would hear of a cancellation. Restate's own answer is to keep the old deployment running at
//! an address of its own until its runs have ended; their tools, and what continues as new, are called at the
//! newest one.
//!
//! A panic of the agent's code is such a failure too.
//!
//! With [`RestateOptions::agent_version`] each run is pinned to a version. Code of another version, or of none, fails
//! with a text that names both, before it writes to the journal. With [`ChangedAgent::GoOn`](neuron_runtime::ChangedAgent)
//! the run goes on, and its next step pins it to the new version. From then on code of the old version fails. Keep `GoOn`
//! until these runs have ended, since each invocation is also checked against the version with which it began. Tools run
//! in any version. A run that continues as new keeps its version, and Restate calls the newest deployment with it: resume
//! it at the old one with `PATCH /invocations/$ID/resume?deployment=$DEPLOYMENT`, or let new code go on. Runs that began
//! without a version are not checked.
//!
//! A replay of more than a hundred steps is logged at level `INFO` when it gets to new work.
//!
//! # Limits
//!
//! - Restate takes messages of up to 32 MiB. A record is at most [`RestateOptions::record_limit`]: an answer
//!   that is longer becomes an error, paid for once, and so does a recorded value. The conversation is left out of an outcome over 16 MiB.
//!   A state over 30 MiB does not continue as new.
//! - A step may take [`RestateOptions::longest_step`], all attempts together, one hour by default. What is
//!   longer, Restate interrupts, and begins again. Set it above `start_to_close_timeout` times the attempts
//!   of the loop's activity options.
//! - Whoever reaches the service's port can run tools past the agent: let Restate alone reach it, or check
//!   its signature with [`AgentService::bind`]. At Restate's own port, only `run`, `signal` and `pending`
//!   can be called.
//! - The journal holds the conversation, for a day after the run by default. Of the environment it holds only
//!   what [`RestateOptions::environment`] names.
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

mod digest;
mod failure;
mod invocation_id;
mod payload;

pub use context::RestateDurableContext;
pub use options::RestateOptions;
pub use outcome::{RunError, RunOutcome};
pub use plain_http::PlainHttp;
pub use runs::AgentRuns;
pub use service::{AgentService, InvalidServiceName};

/// The SDK that [`AgentService::bind`] speaks of, so that its version is the right one.
pub use restate_sdk;
