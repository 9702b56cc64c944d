//! The agent loop: call the model, run the tools that it asks for, keep the conversation inside its
//! budget, and repeat until there is an answer.
//!
//! ```
//! use neuron_loop::AgentLoop;
//! # use neuron_types::*;
//! # struct Provider_;
//! # impl Provider for Provider_ {
//! #     async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
//! #         Ok(CompletionResponse { id: "1".into(), model: "m".into(), message: Message::assistant("4"),
//! #             usage: TokenUsage::default(), stop_reason: StopReason::EndTurn })
//! #     }
//! #     async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
//! #         Err(ProviderError::InvalidRequest("no".into()))
//! #     }
//! # }
//! # struct Unlimited;
//! # impl ContextStrategy for Unlimited {
//! #     fn should_compact(&self, _: &[Message], _: usize) -> bool { false }
//! #     async fn compact(&self, m: Vec<Message>) -> Result<Vec<Message>, ContextError> { Ok(m) }
//! #     fn token_estimate(&self, _: &[Message]) -> usize { 0 }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LoopError> {
//! # let (provider, context) = (Provider_, Unlimited);
//! let mut agent = AgentLoop::builder(provider, context)
//!     .system_prompt("You are a calculator.")
//!     .max_turns(5)
//!     .build();
//!
//! let ctx = ToolContext::default();
//! let result = agent.run_text("What is 2 + 2?", &ctx).await?;
//! assert_eq!(result.response, "4");
//! # Ok(())
//! # }
//! ```
//!
//! # Three ways to run, one engine
//!
//! - [`AgentLoop::run`] drives to the answer.
//! - [`AgentLoop::run_stream`] does the same and tells of it as it happens.
//! - [`AgentLoop::run_step`] hands control back after every turn.
//!
//! They differ only in how the model's answer is obtained and who hears of it. With the same
//! answers they produce the same messages, usage and hook events.
//!
//! [`AgentLoop::run_typed`] is the first with a value of a type at its end.
//!
//! # What holds on every path
//!
//! - Every tool call in the history has exactly one result: the real one, or one that says that the
//!   call failed, was not executed, or was interrupted. So after any error, a cancellation or a
//!   dropped future, [`AgentLoop::messages`] is a history that providers accept, and the next run
//!   continues it.
//! - Cancelling [`ToolContext::cancellation_token`](neuron_types::ToolContext::cancellation_token)
//!   ends the run at once, inside a hanging provider, stream or tool.
//! - Limits prevent: no call of the model, no turn and no tool of a batch is started that would exceed
//!   one; tokens are checked as soon as they are known, before the next call and before any tool.
//! - What the model meant to do is done: calls run whatever the stop reason says, unless the answer was
//!   refused or cut off within one. [`AgentResult::stop_reason`] says whether the answer is whole.
//! - Nothing is spawned: dropping a run's future or stream stops everything in it.
//!
//! # After the answer
//!
//! | The model | What follows |
//! |---|---|
//! | calls tools | They run, and the model is called again, unless a condition of [`stop_when`](AgentLoopBuilder::stop_when) ends the run. |
//! | answers without calls | The run ends with the answer, also if it crossed a limit: limits stop calls, and not results. |
//! | pauses its turn, or the provider compacted the conversation | It is called again with what it said so far, at most 16 times in a row; then the run ends with that. |
//! | refuses | The run ends with what it said and [`StopReason::Refusal`](neuron_types::StopReason::Refusal). Calls beside it do not run. |
//! | is stopped by a content filter, or by `max_tokens` | The run ends with what it said and the stop reason. Calls that came whole run; if one of them was cut off, none does. |
//! | fills its context window | Calls that came whole run. An answer without calls is discarded, the conversation compacted, and the model called once more; if the strategy has nothing to leave out, the run ends with what there is. |
//! | is not asked, because the conversation does not fit into its window | The conversation is compacted and the call made once more; if that is of no use, the run ends with [`ProviderError::ContextWindowExceeded`](neuron_types::ProviderError::ContextWindowExceeded). |
//! | would be called beyond a limit | The run ends with the limit's error, or with one last call for an answer: [`OnLimit`]. |
//!
//! # Approvals
//!
//! A [permission policy](AgentLoopBuilder::permission_policy) sees every call before it runs, with the
//! tool's definition, after the hooks and before any middleware. What it denies is an error result for
//! the model. What it wants a person to be asked about is one as well, or, with
//! [`pause_for_approval`](AgentLoopBuilder::pause_for_approval), a reason to wait: the calls of the same
//! answer that need no approval run, and the run stops with
//! [`LoopError::ApprovalRequired`]. It goes on with
//! [`AgentLoop::resume`], in another process after [`AgentLoop::restore`]. A call is asked about only if
//! its tool exists and takes its arguments. For the hooks a call that waits has not begun.
//!
//! A tool with an agent inside hands that agent's pause on as
//! [`ToolError::ApprovalRequired`](neuron_types::ToolError::ApprovalRequired), and finds a
//! [`ResumedApproval`](neuron_types::ResumedApproval) in its context once it is decided.
//!
//! Under a durable engine the run need not stop: with an
//! [`approval_signal`](AgentLoopBuilder::approval_signal) it waits until somebody has decided, and goes on.
//!
//! # Durable runs
//!
//! With a [durable context](AgentLoopBuilder::durability) an engine makes the calls of the model and of
//! tools, and journals them. The loop asks for them in an order that follows from the conversation alone,
//! so that a replay finds each in the journal. Where the journal grows too long, the engine begins a new
//! execution with the [state](neuron_types::RunSnapshot) of the run: [`AgentLoop::run_from`] goes on from
//! it as if nothing had happened in between. What a hook, an injector or a callback of yours does runs
//! again on replay.
//!
//! # Rejected text
//!
//! A hook that [rejects text](neuron_types::ObservabilityHook::rejects_text) (a guardrail) ends a run
//! so that what it rejected stays nowhere: the user's new message leaves the conversation, and an answer
//! does not come into it, nor into the run's stream as a whole message. Everything before stays, results
//! of tools too, and the error says so. With a hook that
//! [holds text back](neuron_types::ObservabilityHook::holds_back_text) the reader of a stream gets each
//! answer once all hooks have let it pass; without one nothing waits.
//!
//! # Agents inside tools
//!
//! An agent that runs inside a tool call, with the context of the call, belongs to the run around it:
//!
//! - what it takes counts in that run's [`usage`](AgentLoop::usage), and in a [`Budget`] that the run has;
//! - it is cancelled with it, and its calls have keys below that of the call;
//! - [`HookScope::within`](neuron_types::HookScope::within) tells hooks of the call around it;
//! - its pause for an approval, a cancellation and a hook that ends it end the run around it too, as
//!   [`ToolError`](neuron_types::ToolError) made from its [`LoopError`].
//!
//! What it does not do by itself: [`inherit_hooks`](AgentLoopBuilder::inherit_hooks) lets the hooks of the
//! run around it watch, [`inherit_permissions`](AgentLoopBuilder::inherit_permissions) lets its policy
//! decide. `neuron-subagent` does all of it.
//!
//! # Retries
//!
//! An error that may pass ends the run, which the next one continues. The loop itself makes no call
//! of the model again in [`run`](AgentLoop::run) and [`run_step`](AgentLoop::run_step): put retries
//! around the provider (a tower layer, say), which knows how long to wait.
//!
//! A stream that breaks after it began is another matter: around the provider nobody can take back what
//! the reader has seen. With [`LoopConfig::stream_retries`], [`run_stream`](AgentLoop::run_stream)
//! tells [`StreamEvent::Reset`](neuron_types::StreamEvent::Reset) and makes the call again:
//!
//! - after a retryable error or a lost connection, also when the stream did not open;
//! - at once, or as soon as the provider allows if it says when, up to a minute (where there is a tokio
//!   runtime; else at once);
//! - each attempt is one request for the limits, one call for the hooks with an end of its own
//!   (`LlmError`, where it broke), and what it took counts as far as the provider told. An attempt
//!   that a limit forbids is not made: the limit ends the run, or lands it softly, after a reset too;
//! - what broke is not in the conversation, and none of its tool calls runs;
//! - under a durable context the context tries again, and the loop does not.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agent;
mod builder;
mod context;
mod conversation;
mod facade;
mod ledger;
mod model;
mod parts;
mod run;
mod settings;
mod tools;

pub use agent::Agent;
pub use builder::AgentBuilder;
pub use conversation::{Conversation, Start};
pub use facade::{AgentLoop, AgentLoopBuilder, AgentStream, StepIterator, TurnResult};
pub use model::TurnSetup;
pub use neuron_types::{AgentResult, LoopError, RunView};
pub use run::{
    Finished, OwnedRun, OwnedStream, Run, RunEvent, RunEvents, RunHandle, RunResult, RunStream,
    SessionHandle, Step, Steps,
};
#[cfg(feature = "signed-approvals")]
pub use settings::ApprovalKey;
pub use settings::{
    ApprovalSignal, Budget, CancelMode, EndStrategy, LoopConfig, OnLimit, OutputMode,
    RequestSettings, Reservation, ToolErrorPolicy,
};
