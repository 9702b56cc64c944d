//! A run that has not begun, and the ways to configure and start it.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::OnceLock;

use neuron_types::{
    Budget, ContextStrategy, ContextStrategyDyn, DeltaSlot, Durability, DurableContext, LoopError,
    OutputSchema, Provider, ProviderDyn, Start, ToolContext, WasmBoxedFuture, WasmCompatSend,
    read_json,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::handle::Steered;
use super::live::Live;
use super::watch::{RunEvents, RunStream, Steps};
use super::{OutputType, RunHandle, RunResult, SessionHandle, Step, drive};
use crate::Agent;
use crate::conversation::Conversation;
use crate::parts::Reader;

/// A function that converts the output of a run to the type `O`. Its argument is `None` if the run has no output. Its
/// error says why the output is invalid.
type Read<O> = fn(Option<Value>) -> Result<O, String>;

/// A run of a conversation. [`Agent::run`] creates it. The run does nothing until it is awaited,
/// [streamed](Self::stream) or [stepped](Self::steps).
///
/// # Cancel safety
///
/// Dropping a run stops it. The conversation keeps the results of finished tool calls. Every unfinished call gets a
/// result that says that it did not run or that its outcome is unknown. A new run with [`Start::Continue`] continues
/// the conversation.
///
/// # Example
///
/// ```
/// # use neuron_loop::{Agent, Conversation, LoopError};
/// # use neuron_testing::{Reply, ScriptedProvider};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct City {
///     name: String,
///     /// How many people live there
///     inhabitants: u64,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LoopError> {
/// # let output = serde_json::json!({"name": "Tokyo", "inhabitants": 14_000_000});
/// # let agent = Agent::builder(ScriptedProvider::new([Reply::tool_call("1", "final_output", output)])).build();
/// let mut chat = Conversation::new();
/// let run = agent.run(&mut chat, "What is the largest city of Japan?");
/// let city = run.typed::<City>().await?.output;
/// assert_eq!(city.name, "Tokyo");
/// # assert_eq!(city.inhabitants, 14_000_000);
/// # Ok(())
/// # }
/// ```
#[must_use = "a run does nothing until it is awaited, streamed or stepped"]
pub struct Run<'a, O = (), C = &'a mut Conversation> {
    pub(super) agent: Agent,
    model: Option<Box<dyn ProviderDyn + 'a>>,
    strategy: Option<Strategy<'a>>,
    durability: Option<Durability<'a>>,
    store: Option<SessionHandle<'a>>,
    pub(super) live: Live<'a>,
    read: Read<O>,
    pub(super) conversation: C,
}

/// A run that owns its conversation. [`Agent::run_owned`] creates it. Awaiting the run returns the conversation and the
/// outcome. If the run is streamed, stepped or dropped, the conversation is available from [its
/// handle](RunHandle::take_conversation) afterwards.
pub type OwnedRun<O = ()> = Run<'static, O, Lent>;

/// The conversation of an [`OwnedRun`]. On drop, the conversation moves to the run's handle.
#[derive(Debug)]
pub struct Lent {
    conversation: Conversation,
    handle: RunHandle,
    /// Passes the events of a detached run to their reader.
    events: Option<DeltaSlot>,
}

/// A context strategy for one run.
struct Strategy<'a> {
    strategy: Box<dyn ContextStrategyDyn + 'a>,
    /// Estimated tokens of the agent's system prompt and tools, as counted by this strategy.
    frame_size: OnceLock<usize>,
}

impl<'a, C> Run<'a, (), C> {
    pub(crate) fn new(agent: Agent, conversation: C, start: Start) -> Self {
        Self {
            agent,
            model: None,
            strategy: None,
            durability: None,
            store: None,
            live: Live { start: Some(start), ..Live::default() },
            read: |_| Ok(()),
            conversation,
        }
    }

    /// Makes the run end with a value of type `T`. [`LoopConfig::output_mode`](crate::LoopConfig::output_mode) selects
    /// how the model gives the value. If a value does not match the type, the model receives the place and the reason
    /// of the mismatch, and tries again.
    ///
    /// If the model gives no matching value, the run ends with [`LoopError::InvalidOutput`].
    pub fn typed<T: DeserializeOwned + JsonSchema>(self) -> Run<'a, T, C> {
        let Self { agent, model, strategy, durability, store, mut live, conversation, .. } = self;
        live.typed =
            Some(OutputType { object: OutputSchema::of::<T>, plain: OutputSchema::plain::<T> });
        let read = read_output::<T>;
        Run { agent, model, strategy, durability, store, live, read, conversation }
    }
}

/// Deserialises the output of a typed run.
fn read_output<T: DeserializeOwned>(output: Option<Value>) -> Result<T, String> {
    let missing = || "the run ended before the model gave its output".to_owned();
    read_json(output.ok_or_else(missing)?).map_err(|mismatch| mismatch.to_string())
}

impl OwnedRun {
    pub(crate) fn owned(agent: Agent, conversation: Conversation, start: Start) -> Self {
        let handle = RunHandle::default();
        let lent = Lent { conversation, handle: handle.clone(), events: None };
        let mut run = Run::new(agent, lent, start);
        run.live.handle = Some(Steered(handle));
        run
    }
}

impl<'a, O, C> Run<'a, O, C> {
    /// Sets the context of the caller, borrowed or owned. It carries the cancellation token, the session id, and
    /// extensions for tools. Default: [`ToolContext::default`].
    pub fn context(mut self, ctx: impl Into<Cow<'a, ToolContext>>) -> Self {
        self.live.ctx = ctx.into();
        self
    }

    /// Sets the provider for this run. The provider may be borrowed. Default: the agent's provider.
    pub fn provider(mut self, provider: impl Provider + 'a) -> Self {
        self.model = Some(Box::new(provider));
        self
    }

    /// Sets the context strategy for this run. The strategy may contain references, for example to a durable engine
    /// that journals the strategy's model calls. Default: the agent's strategy.
    pub fn strategy(mut self, strategy: impl ContextStrategy + 'a) -> Self {
        let strategy = Box::new(strategy);
        self.strategy = Some(Strategy { strategy, frame_size: OnceLock::new() });
        self
    }

    /// Sets a durable engine that executes all model calls and tool calls of this run.
    pub fn durable(mut self, context: impl DurableContext + 'a) -> Self {
        self.durability = Some(Durability::new(context));
        self
    }

    /// Sets a budget for this run and for agents inside its tools. Default: the agent's budget.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.live.budget = Some(budget);
        self
    }

    /// Stores the conversation in a session after each turn, before tools begin, and at the end of the run. A run that
    /// fails or is cancelled is also stored at its end. A storage error at the end of such a run is only logged.
    ///
    /// Any other storage error ends the run with [`LoopError::Storage`]. A run with [`Start::Continue`] then writes again,
    /// and goes on where this one stopped or returns its answer. After a conflict, load the session first.
    pub fn store(mut self, session: &SessionHandle<'a>) -> Self {
        self.store = Some(session.clone());
        self
    }

    /// Makes the run wait when calls need an approval, until [`RunHandle::decide`] is called. By default such a run
    /// ends with [`LoopError::ApprovalRequired`].
    pub fn wait_for_approval(mut self) -> Self {
        self.live.waits = true;
        self
    }

    /// Returns a handle that controls the run.
    pub fn handle(&mut self) -> RunHandle {
        self.live.handle.get_or_insert_default().0.clone()
    }
}

impl<'a, O: 'a, C: DerefMut<Target = Conversation> + WasmCompatSend + 'a> Run<'a, O, C> {
    /// Returns the run as a stream of events. The run makes progress while the stream is polled.
    pub fn stream(mut self) -> RunStream<'a, O> {
        RunStream::new(|slot| {
            Box::pin(async move { pin!(self.finish(Reader::Stream(&slot))).await })
        })
    }

    /// Returns the run as a sequence of steps. The caller has control between two steps.
    pub fn steps(self) -> Steps<'a, O, C> {
        Steps(self)
    }

    /// Drives the run to its end. If the reader receives steps, returns after the next step. Returns `None` if the run
    /// has already ended.
    pub(super) async fn drive(&mut self, reader: Reader<'_>) -> Option<Result<Step<O>, LoopError>> {
        let mut parts = self.agent.parts().with_durability(self.durability.as_ref());
        if let Some(model) = &self.model {
            parts.model = &**model;
        }
        if let Some(strategy) = &self.strategy {
            parts.strategy = &*strategy.strategy;
            parts.frame_size = Some(&strategy.frame_size);
        }
        let ledger = &mut self.conversation.ledger;
        let run = drive(parts, self.store.as_ref(), ledger, &mut self.live, reader);
        let mut result = match pin!(run).await? {
            Ok(Step::Ended(result)) => result,
            Ok(Step::Tools { calls, results }) => return Some(Ok(Step::Tools { calls, results })),
            Ok(Step::Compacted { old_tokens, new_tokens }) => {
                return Some(Ok(Step::Compacted { old_tokens, new_tokens }));
            }
            Err(error) => return Some(Err(error)),
        };
        let output = result.output.take();
        let raw = output.as_ref().map(Value::to_string);
        let output = (self.read)(output).map_err(|reason| {
            let raw = raw.unwrap_or_else(|| result.response.clone());
            ledger.invalid_output(raw, reason, &result.stop_reason)
        });
        Some(output.map(|output| Step::Ended(result.with_output(output))))
    }

    /// Drives the run to its end, and returns its outcome.
    async fn finish(&mut self, reader: Reader<'_>) -> Result<RunResult<O>, LoopError> {
        match pin!(self.drive(reader)).await {
            Some(Ok(Step::Ended(result))) => Ok(result),
            Some(Err(error)) => Err(error),
            _ => Err(LoopError::Cancelled),
        }
    }
}

impl<'a, O: 'a> IntoFuture for Run<'a, O> {
    type Output = Result<RunResult<O>, LoopError>;
    type IntoFuture = WasmBoxedFuture<'a, Self::Output>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move { pin!(self.finish(Reader::Nobody)).await })
    }
}

impl<O: 'static> OwnedRun<O> {
    /// Splits the run into its events and a future to spawn. Dropping the events does not stop the run. The events end
    /// with the run, also if the future panics or is dropped. The conversation is then available from [the run's
    /// handle](RunHandle::take_conversation).
    pub fn detach(
        mut self,
    ) -> (
        RunEvents,
        impl Future<Output = (Conversation, Result<RunResult<O>, LoopError>)> + WasmCompatSend + 'static,
    ) {
        let slot = DeltaSlot::default();
        self.conversation.events = Some(slot.clone());
        let events = RunEvents(slot.clone());
        (events, async move { pin!(self.end(Reader::Stream(&slot))).await })
    }

    /// Drives the run to its end. Returns the conversation with the outcome.
    async fn end(mut self, reader: Reader<'_>) -> (Conversation, Result<RunResult<O>, LoopError>) {
        let result = pin!(self.finish(reader)).await;
        let handle = self.conversation.handle.clone();
        // Dropping the run moves the conversation into the handle.
        // FAULT the conversation of a run that owns it is lost at its end: without the line
        drop(self);
        (handle.take_conversation().unwrap_or_default(), result)
    }
}

impl<O: 'static> IntoFuture for OwnedRun<O> {
    type Output = (Conversation, Result<RunResult<O>, LoopError>);
    type IntoFuture = WasmBoxedFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.end(Reader::Nobody))
    }
}

impl Deref for Lent {
    type Target = Conversation;

    fn deref(&self) -> &Conversation {
        &self.conversation
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Conversation {
        &mut self.conversation
    }
}

/// Moves the conversation to the run's handle, and then ends the events.
impl Drop for Lent {
    fn drop(&mut self) {
        self.handle.give_back(std::mem::take(&mut self.conversation));
        // FAULT the reader of a dropped run waits forever: without the statement
        //     (ends::events_end_however_the_detached_run_ends)
        if let Some(events) = &self.events {
            events.close();
        }
    }
}

impl<O, C> fmt::Debug for Run<'_, O, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("agent", &self.agent).finish_non_exhaustive()
    }
}
