//! The agent loop, which calls the model, runs the tools that it asks for, and keeps the conversation small enough, until
//! there is an answer.
//!
//! An [`Agent`] is defined once and shared. A [`Conversation`] is a value: it can be stored, forked, and continued by another
//! agent or process. A [`Run`] brings both together.
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
//! A run starts with one of these, all of them a [`Start`]:
//!
//! | Start | The run |
//! |---|---|
//! | a text or a [`Message`](neuron_types::Message) | answers it |
//! | [`ApprovalDecisions`](neuron_types::ApprovalDecisions) | goes on where calls waited for an approval |
//! | [`Start::Continue`] | goes on with a conversation as it is: after an error, a drop, or a crash |
//! | a [`RunSnapshot`](neuron_types::RunSnapshot) | goes on where a durable engine left it |
//!
//! Each start works with each way to watch:
//!
//! - `.await` gives the [`RunResult`];
//! - [`Run::stream`] gives what happens as [`RunEvent`]s, and the result or the error as its last item;
//! - [`Run::steps`] hands control back after each turn;
//! - [`Run::typed`] lets any of them end with a value of a type.
//!
//! [`Run::durable`], [`Run::store`] and [`Run::budget`] change how the run is made. A [`RunHandle`] steers or cancels it from
//! outside. An [`OwnedRun`], made by [`Agent::run_owned`], owns its conversation: a server can
//! [detach](OwnedRun::detach) it from its client, and gets the conversation back however the run ends.
//!
//! # What holds on every path
//!
//! - Each tool call in the history has exactly one result: the real one, or one that says that the call failed, did not run,
//!   or was interrupted. So providers accept [`Conversation::messages`] after any error, cancellation or drop, and the next
//!   run continues it.
//! - Cancelling [`ToolContext::cancellation_token`](neuron_types::ToolContext::cancellation_token) ends the run at once, inside
//!   a provider, stream or tool that hangs.
//! - Limits prevent: the loop starts no call of the model, no turn and no tool that would exceed one. It checks tokens as soon
//!   as they are known, before the next call and before any tool.
//! - Calls run whatever the stop reason says, unless the answer was refused or cut off within one.
//!   [`RunResult::stop_reason`] says whether the answer is whole.
//! - The loop spawns nothing. Dropping a run's future or stream stops everything in it.
//!
//! # After the answer
//!
//! | The model | What follows |
//! |---|---|
//! | calls tools | They run, and the model is called again, unless a condition of [`stop_when`](AgentBuilder::stop_when) ends the run. |
//! | answers without calls | The run ends with the answer, also if it crossed a limit: limits stop calls and not results. |
//! | pauses its turn, or the provider compacted the conversation | It is called again with what it said so far, at most 16 times in a row. Then the run ends with that. |
//! | refuses | The run ends with what it said and [`StopReason::Refusal`](neuron_types::StopReason::Refusal). Calls beside it do not run. |
//! | is stopped by a content filter, or by `max_tokens` | The run ends with what it said and the stop reason. Calls that came whole run. If one of them was cut off, none does. |
//! | fills its context window | Calls that came whole run. An answer without calls is discarded, the conversation compacted, and the model called once more. If the strategy has nothing to leave out, the run ends with what there is. |
//! | is not asked, because the conversation does not fit into its window | The conversation is compacted and the call made once more. If that is of no use, the run ends with [`ProviderError::ContextWindowExceeded`](neuron_types::ProviderError::ContextWindowExceeded). |
//! | would be called beyond a limit | The run ends with the limit's error, or with one last call for an answer: [`OnLimit`]. |
//!
//! # Layers and hooks
//!
//! A [`ModelLayer`](neuron_types::ModelLayer) stands around each call of the model, as middleware stands around each call of a
//! tool. It may change the request, choose another provider, judge the answer, hold back its text, or make the call again. A
//! layer that rejects text ends the run so that the text stays nowhere: new messages leave the conversation, and the answer
//! does not enter it. An [`ObservabilityHook`](neuron_types::ObservabilityHook) is told what happens, and may end the run. It
//! brings a layer if it judges text.
//!
//! # Approvals
//!
//! A [permission policy](AgentBuilder::permission_policy) sees each call before it runs, after the hooks and before any
//! middleware. A call that it denies gets an error as its result. A call on which a person must decide gets one too, or waits
//! if [`LoopConfig::pause_for_approval`] says so: the other calls of the answer run, and the run ends with
//! [`LoopError::ApprovalRequired`]. The conversation keeps what waits, so any process may go on with the decisions. The loop
//! asks about no call that its tool would refuse.
//!
//! A tool with an agent inside hands that agent's pause on as
//! [`ToolError::ApprovalRequired`](neuron_types::ToolError::ApprovalRequired). It finds a
//! [`ResumedApproval`](neuron_types::ResumedApproval) in its context once somebody has decided.
//!
//! A run need not end to wait: see [`Run::wait_for_approval`], and [`ApprovalSignal`] for durable engines.
//!
//! # Durable runs
//!
//! With a [durable context](Run::durable) an engine makes the calls of the model and of tools, and journals them. The loop asks
//! for them in an order that follows from the conversation alone, so a replay finds each in the journal. An `Agent` is a
//! [`DurableAgent`](neuron_types::DurableAgent): engines host it as it is. What a hook, a layer, an injector or a callback of
//! yours does runs again on replay.
//!
//! # Agents inside tools
//!
//! An agent that runs inside a tool call, with the context of the call, belongs to the run around it:
//!
//! - its tokens count in that run's [usage](Conversation::usage), and in a [`Budget`] of that run;
//! - it is cancelled with it, and its calls have keys below that of the call;
//! - [`HookScope::within`](neuron_types::HookScope::within) tells hooks of the call around it;
//! - its pause for an approval, a cancellation and a hook that ends it end the run around it too.
//!
//! [`inherit_hooks`](AgentBuilder::inherit_hooks) lets the hooks of the run around it watch, and
//! [`inherit_permissions`](AgentBuilder::inherit_permissions) lets its policy decide. `neuron-subagent` does all of it.
//!
//! # Retries
//!
//! The loop makes a call of the model again after an error that may pass, [`LoopConfig::retries`] times. It waits as long as the
//! provider asks, up to a minute. Each attempt is one request for the limits and one call for the hooks. Where a stream broke,
//! its reader gets a [`StreamEvent::Reset`](neuron_types::StreamEvent::Reset), and nothing of it stays. Under a durable engine
//! the engine makes calls again, and the loop does not.
//!
//! # One value for both
//!
//! [`AgentLoop`] holds an agent and its conversation in one value. It has fewer ways to start and watch, and the plain defaults
//! of [`LoopConfig`].

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agent;
mod builder;
mod context;
mod conversation;
mod facade;
mod ledger;
mod lock;
mod model;
mod parts;
mod run;
mod tools;

pub use agent::Agent;
pub use builder::AgentBuilder;
pub use conversation::Conversation;
pub use facade::{AgentLoop, AgentLoopBuilder, AgentStream, StepIterator, TurnResult};
pub use neuron_types::{
    AgentResult, ApprovalSignal, Budget, CancelMode, EndStrategy, LoopConfig, LoopError, OnLimit,
    OutputMode, RequestSettings, Reservation, RunView, Start, ToolErrorPolicy, TurnSetup,
};
pub use run::{
    OwnedRun, Run, RunEvent, RunEvents, RunHandle, RunResult, RunStream, SessionHandle, Step, Steps,
};
