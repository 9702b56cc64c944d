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
//! # Once for each version of the code: tell the server where the service is.
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
//! In Rust, `restate_sdk::ingress` has a client for all but the last. With an idempotency key, a header of
//! that name, the same run is begun once however often it is asked for. The example `restate_agent` of this
//! crate shows all of it on a real server, with a process that is killed.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | hosting an agent, alone or beside services of yours | [`AgentService`] |
//! | sizes, time limits, the environment of tools, continuing as new | [`RestateOptions`] |
//! | what a run answers | [`RunOutcome`] |
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
//!   several of one name are handed out in order. Nobody is told of one to a run that has ended.
//! - **Approvals**: name a signal with the loop's `approval_signal`. While the run waits, the object
//!   `support.waiting` tells whoever asks what it waits for: the calls, without the conversation. A run whose
//!   invocation is killed stays in that list.
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
//! # When the code changes
//!
//! A run that began with other code may ask for something else than its journal holds. Restate notices other
//! steps; other input of a step, another system prompt say, is noticed here, by a digest in the step's
//! record. So is a record that a newer release wrote in a form unknown to this one. Either way the invocation
//! fails with a text that says what differs, and nothing is journaled. Restate tries it again, up to 70 times
//! and ever more rarely, and then pauses it: with the old code back it goes on; else kill it, since it does not
//! get to where it would hear of a cancellation. Restate's own answer is to keep the old deployment running at
//! an address of its own until its runs have ended; their tools, and what continues as new, are called at the
//! newest one.
//!
//! A panic of the agent's code is such a failure too.
//!
//! # Limits
//!
//! - Restate takes messages of up to 32 MiB. A record is at most [`RestateOptions::record_limit`]: an answer
//!   that is longer becomes an error, paid for once. The conversation is left out of an outcome over 16 MiB.
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
mod inbox;
mod journal;
mod running;
mod waiting;

mod digest;
mod failure;
mod invocation_id;
mod payload;

pub use context::RestateDurableContext;
pub use options::RestateOptions;
pub use outcome::{RunError, RunOutcome};
pub use service::{AgentService, InvalidServiceName};

/// The SDK that [`AgentService::bind`] speaks of, so that its version is the right one.
pub use restate_sdk;
