//! The agent loop. It calls the model, runs the requested tools, and compacts the conversation if necessary, until the
//! model gives an answer.
//!
//! An [`Agent`] is defined once and shared. A [`Conversation`] can be stored, forked, and continued by another agent or
//! process. A [`Run`] is a run of an agent over a conversation.
//!
//! ```
//! use neuron_loop::{Agent, Conversation};
//! # use neuron_loop::LoopError;
//! # use neuron_testing::ScriptedProvider;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LoopError> {
//! # let provider = ScriptedProvider::new(["4", "8"]);
//! let agent = Agent::builder(provider).system_prompt("You are a calculator.").build();
//!
//! let mut chat = Conversation::new();
//! let result = agent.run(&mut chat, "What is 2 + 2?").await?;
//! assert_eq!(result.response, "4");
//! let result = agent.run(&mut chat, "And twice that?").await?;
//! assert_eq!((result.response.as_str(), chat.messages().len()), ("8", 4));
//! # Ok(())
//! # }
//! ```
//!
//! # Starting and watching
//!
//! A run starts with one of these values. All of them convert into a [`Start`]:
//!
//! | Start | The run |
//! |---|---|
//! | a text or a [`Message`](neuron_types::Message) | adds the message and answers it |
//! | [`ApprovalDecisions`](neuron_types::ApprovalDecisions) | resumes the run whose calls waited for an approval |
//! | [`Start::Continue`] | continues the conversation without a new message, after an error, a drop, or a crash |
//! | a [`RunSnapshot`](neuron_types::RunSnapshot) | resumes the run where a durable engine left it |
//!
//! Each start works with each way to watch a run:
//!
//! - `.await` returns the [`RunResult`];
//! - [`Run::stream`] yields [`RunEvent`]s. The result or the error is the last item;
//! - [`Run::steps`] returns control to the caller after each turn;
//! - [`Run::typed`] adds a typed output to any of them.
//!
//! [`Run::durable`], [`Run::store`] and [`Run::budget`] configure the run. A [`RunHandle`] steers or cancels it from
//! outside.
//!
//! An [`OwnedRun`], made by [`Agent::run_owned`], owns its conversation. A server can [detach](OwnedRun::detach) the
//! run, so that it continues without the client. The conversation is returned whether the run succeeds, fails or is
//! dropped.
//!
//! # Guarantees
//!
//! - Each tool call in the history has exactly one result. It is the real result, or a text that says that the call
//!   failed, did not run, or was interrupted. Providers therefore accept [`Conversation::messages`] after any error,
//!   cancellation or drop, and the next run can continue.
//! - Cancelling [`ToolContext::cancellation_token`](neuron_types::ToolContext::cancellation_token) ends the run
//!   immediately, even while a provider, stream or tool hangs.
//! - The loop starts no model call, turn or tool that would exceed a limit. It checks tokens as soon as they are known,
//!   before the next call and before any tool.
//! - Complete tool calls run after any stop reason, unless the response was refused, or was cut off inside a call.
//!   [`RunResult::stop_reason`] shows if the response is complete.
//! - The loop spawns no tasks. Dropping a run's future or stream stops everything in it.
//!
//! # After each answer
//!
//! | The model | What follows |
//! |---|---|
//! | calls tools | They run, and the model is called again, unless a [`stop_when`](AgentBuilder::stop_when) condition ends the run. |
//! | answers without calls | The run ends with the answer, even if the answer crossed a limit. Limits stop calls and never discard results. |
//! | pauses its turn, or the provider compacted the conversation | The model is called again with its answer so far, at most 16 times in a row. After that the run ends with this answer. |
//! | refuses | The run ends with the answer so far and [`StopReason::Refusal`](neuron_types::StopReason::Refusal). Calls of the same answer do not run. |
//! | is stopped by a content filter, or by `max_tokens` | The run ends with the answer so far and the stop reason. Complete calls run, unless one call of the answer was cut off. |
//! | fills its context window | Complete calls run. An answer without calls is discarded, the conversation is compacted, and the model is called once more. If the strategy cannot shorten the conversation, the run ends with the partial answer. |
//! | is not called, because the conversation does not fit into its window | The conversation is compacted and the call is made once more. If it still does not fit, the run ends with [`ProviderError::ContextWindowExceeded`](neuron_types::ProviderError::ContextWindowExceeded). |
//! | would be called beyond a limit | The run ends with the limit's error, or with one last call for an answer. See [`OnLimit`]. |
//!
//! # Layers and hooks
//!
//! A [`ModelLayer`](neuron_types::ModelLayer) wraps each model call, as middleware wraps each tool call. It may change
//! the request, choose another provider, check the response, delay its text, or repeat the call.
//!
//! A layer that rejects text ends the run. If it rejects new messages, they are removed from the conversation. If it
//! rejects a response, the response is not added.
//!
//! An [`ObservabilityHook`](neuron_types::ObservabilityHook) receives the events of a run and may end the run. A hook
//! that checks text provides a layer for the check.
//!
//! # Approvals
//!
//! A [permission policy](AgentBuilder::permission_policy) checks each tool call before it runs, after the hooks and
//! before any middleware. A denied call gets an error as its result. By default, a call that needs a person's decision
//! is denied too.
//!
//! With [`LoopConfig::pause_for_approval`], such a call stays pending. The other calls of the response are executed,
//! and then the run ends with [`LoopError::ApprovalRequired`]. The conversation contains the pending calls, so any
//! process can resume it with the decisions. The loop requests no approval for a call that its tool would refuse.
//!
//! If an agent inside a tool pauses for an approval, the tool returns
//! [`ToolError::ApprovalRequired`](neuron_types::ToolError::ApprovalRequired). After the decision, the tool is called
//! again with a [`ResumedApproval`](neuron_types::ResumedApproval) in its context.
//!
//! A run can also wait for decisions without ending. See [`Run::wait_for_approval`], and [`ApprovalSignal`] for durable
//! engines.
//!
//! # Durable runs
//!
//! With a [durable context](Run::durable), an engine executes and journals the model calls and tool calls. Their order
//! depends only on the conversation, so a replay finds each call in the journal. The code of hooks, layers, injectors
//! and callbacks runs again on replay. An `Agent` is a [`DurableAgent`](neuron_types::DurableAgent), which engines can
//! host directly.
//!
//! # Agents inside tools
//!
//! An agent that runs inside a tool call, with the context of this call, is a child of the run that made the call:
//!
//! - its tokens count in the parent's [usage](Conversation::usage) and in the parent's [`Budget`];
//! - it is cancelled with the parent, and the idempotency keys of its calls extend the key of the outer call;
//! - [`HookScope::within`](neuron_types::HookScope::within) names the outer call for hooks;
//! - the parent ends too if the child pauses for an approval, is cancelled, or is ended by a hook.
//!
//! [`inherit_hooks`](AgentBuilder::inherit_hooks) adds the parent's hooks to the child.
//! [`inherit_permissions`](AgentBuilder::inherit_permissions) gives the child the parent's policy. `neuron-subagent`
//! does both.
//!
//! # Retries
//!
//! The loop retries a model call up to [`LoopConfig::retries`] times after a transient error. Before a retry it waits
//! as long as the provider asks. It does not retry if the provider asks for more than a minute. Each attempt counts as
//! one request for the limits and as one call for the hooks.
//!
//! If a stream breaks, its reader receives a [`StreamEvent::Reset`](neuron_types::StreamEvent::Reset), and the partial
//! response is dropped. With a durable engine, only the engine retries.
//!
//! # Agent and conversation in one value
//!
//! [`AgentLoop`] holds an agent and its conversation in one value. It has fewer ways to start and watch a run, and the
//! plain defaults of [`LoopConfig`].

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agent;
mod context;
mod conversation;
mod facade;
mod ledger;
mod lock;
mod model;
mod parts;
mod run;
mod tools;

pub use agent::{Agent, AgentBuilder};
pub use conversation::{Conversation, SessionHandle};
pub use facade::{AgentLoop, AgentLoopBuilder, AgentStream, StepIterator, TurnResult};
pub use neuron_types::{
    AgentResult, ApprovalSignal, Budget, CancelMode, EndStrategy, LoopConfig, LoopError, OnLimit,
    OutputMode, RequestSettings, Reservation, RunView, Start, ToolErrorPolicy, TurnSetup,
};
pub use parts::{RunHandle, SteerError};
pub use run::{OwnedRun, Run, RunEvent, RunEvents, RunResult, RunStream, Step, Steps};
