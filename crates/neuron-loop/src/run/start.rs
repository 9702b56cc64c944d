//! A run that has not begun: its parts, and the ways to begin it.

use std::fmt;
use std::future::IntoFuture;
use std::sync::OnceLock;

use neuron_types::{
    Budget, ContextStrategy, ContextStrategyDyn, Durability, DurableContext, LoopError,
    OutputSchema, Provider, ProviderDyn, ToolContext, WasmBoxedFuture, WasmCompatSend, read_json,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::live::{ActiveRun, Live, RunContext};
use super::watch::{Finished, OwnedStream, RunEvents, RunStream, Steps};
use super::{Driven, OutputType, RunHandle, RunResult, SessionHandle, Step, Way, drive};
use crate::Agent;
use crate::conversation::{Conversation, Start};
use crate::ledger::Ledger;
use crate::parts::Slot;

/// Reads the output of a run. `None` means that there is none.
type Read<O> = fn(Option<Value>) -> Result<O, String>;

/// A run of a conversation; made by [`Agent::run`]. It does nothing until it is awaited,
/// [streamed](Self::stream) or [stepped](Self::steps).
///
/// # Cancel safety
///
/// Dropping a run stops it. Results of tools that finished are in the conversation, and other calls have a result that
/// says that they did not run or that their outcome is unknown. [`Start::Continue`] goes on with it.
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
    pub(super) engine: Engine<'a, O>,
    pub(super) conversation: C,
}

/// A run that owns its conversation; made by [`Agent::run_owned`].
pub type OwnedRun<O = ()> = Run<'static, O, Conversation>;

/// Everything that drives a run, apart from its conversation.
pub(super) struct Engine<'a, O> {
    pub(super) agent: Agent,
    model: Option<Box<dyn ProviderDyn + 'a>>,
    strategy: Option<Strategy<'a>>,
    durability: Option<Durability<'a>>,
    store: Option<SessionHandle<'a>>,
    pub(super) run: ActiveRun<'a>,
    read: Read<O>,
}

/// A strategy for one run.
struct Strategy<'a> {
    strategy: Box<dyn ContextStrategyDyn + 'a>,
    /// Its estimate of the agent's frame.
    frame_size: OnceLock<usize>,
}

impl<O> Engine<'_, O> {
    /// Drives the run of a conversation. `None` if it is over.
    pub(super) async fn drive(
        &mut self,
        conversation: &mut Conversation,
        way: Way<'_>,
    ) -> Option<Result<Step<O>, LoopError>> {
        let mut parts = self.agent.parts().with_durability(self.durability.as_ref());
        if let Some(model) = &self.model {
            parts.model = &**model;
        }
        if let Some(strategy) = &self.strategy {
            parts.strategy = &*strategy.strategy;
            parts.frame_size = Some(&strategy.frame_size);
        }
        let driven =
            drive(parts, self.store.as_ref(), &mut conversation.ledger, &mut self.run, way).await?;
        Some(self.read(driven, &conversation.ledger))
    }

    /// Drives the run of a conversation to its end.
    pub(super) async fn finish(
        &mut self,
        conversation: &mut Conversation,
        way: Way<'_>,
    ) -> Result<RunResult<O>, LoopError> {
        match self.drive(conversation, way).await {
            Some(Ok(Step::Ended(result))) => Ok(result),
            Some(Err(error)) => Err(error),
            _ => Err(LoopError::Cancelled),
        }
    }

    /// Reads the output of a run that has ended.
    fn read(&self, driven: Driven, ledger: &Ledger) -> Result<Step<O>, LoopError> {
        let mut result = match driven? {
            Step::Tools { calls, results } => return Ok(Step::Tools { calls, results }),
            Step::Compacted { old_tokens, new_tokens } => {
                return Ok(Step::Compacted { old_tokens, new_tokens });
            }
            Step::Ended(result) => result,
        };
        let output = result.output.take();
        let raw = output.as_ref().map(Value::to_string);
        let output = (self.read)(output).map_err(|reason| {
            let raw = raw.unwrap_or_else(|| result.response.clone());
            ledger.invalid_output(raw, reason, &result.stop_reason)
        })?;
        Ok(Step::Ended(result.with_output(output)))
    }
}

impl<'a, C> Run<'a, (), C> {
    pub(crate) fn new(agent: Agent, conversation: C, start: Start) -> Self {
        let run = Live::new(start, RunContext::Owned(Box::default())).into();
        let engine = Engine {
            agent,
            model: None,
            strategy: None,
            durability: None,
            store: None,
            run,
            read: |_| Ok(()),
        };
        Self { engine, conversation }
    }

    /// Lets the run end with a value of a type. The model gives it in the way that
    /// [`LoopConfig::output_mode`](crate::LoopConfig::output_mode) says. A value that does not fit goes back to the model
    /// with the place and the reason.
    ///
    /// A run without a value that fits ends with [`LoopError::InvalidOutput`].
    pub fn typed<T: DeserializeOwned + JsonSchema>(self) -> Run<'a, T, C> {
        let Engine { agent, model, strategy, durability, store, mut run, .. } = self.engine;
        run.live.typed =
            Some(OutputType { object: OutputSchema::of::<T>, plain: OutputSchema::plain::<T> });
        let read = read_typed::<T>;
        let engine = Engine { agent, model, strategy, durability, store, run, read };
        Run { engine, conversation: self.conversation }
    }
}

fn read_typed<T: DeserializeOwned>(output: Option<Value>) -> Result<T, String> {
    let missing = || "the run ended before the model gave its output".to_owned();
    read_json(output.ok_or_else(missing)?).map_err(|mismatch| mismatch.to_string())
}

impl<'a, O, C> Run<'a, O, C> {
    /// Sets the context of the caller: cancellation, session, extensions for tools. Default:
    /// [`ToolContext::default`].
    pub fn context(mut self, ctx: &'a ToolContext) -> Self {
        self.engine.run.live.ctx = RunContext::Borrowed(ctx);
        self
    }

    /// [`context`](Self::context) with a context that the run owns.
    pub fn owned_context(mut self, ctx: ToolContext) -> Self {
        self.engine.run.live.ctx = RunContext::Owned(Box::new(ctx));
        self
    }

    /// Lets another provider answer in this run, which may be borrowed.
    pub fn provider(mut self, provider: impl Provider + 'a) -> Self {
        self.engine.model = Some(Box::new(provider));
        self
    }

    /// Lets another strategy keep the conversation small in this run. It may borrow: the durable engine that journals its
    /// calls of a model, say.
    pub fn strategy(mut self, strategy: impl ContextStrategy + 'a) -> Self {
        let strategy = Box::new(strategy);
        self.engine.strategy = Some(Strategy { strategy, frame_size: OnceLock::new() });
        self
    }

    /// Lets a durable engine carry out all calls of the model and of tools.
    pub fn durable(mut self, context: impl DurableContext + 'a) -> Self {
        self.engine.durability = Some(Durability::new(context));
        self
    }

    /// Lets the run, and agents within its tools, keep to a budget. Default: the budget of the agent.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.engine.run.live.budget = Some(budget);
        self
    }

    /// Stores the conversation while it runs: after each turn, before tools begin, and at the end.
    pub fn store(mut self, session: &SessionHandle<'a>) -> Self {
        self.engine.store = Some(session.clone());
        self
    }

    /// Controls the run by a handle.
    pub fn with_handle(mut self, handle: &RunHandle) -> Self {
        self.engine.run.live.handle = Some(handle.clone());
        self
    }

    /// Lets the run wait where calls need an approval, until [`RunHandle::decide`] is called. Default: it ends with
    /// [`LoopError::ApprovalRequired`].
    pub fn wait_for_approval(mut self) -> Self {
        self.engine.run.live.waits = true;
        self
    }

    /// Returns a handle that controls the run.
    pub fn handle(&mut self) -> RunHandle {
        self.engine.run.live.handle.get_or_insert_default().clone()
    }
}

impl<'a, O: 'a> Run<'a, O> {
    /// Runs as a stream of events. The run happens while the stream is polled.
    pub fn stream(self) -> RunStream<'a, O> {
        let Self { mut engine, conversation } = self;
        RunStream::new(|slot| {
            Box::pin(async move { engine.finish(conversation, Way::Stream(&slot)).await })
        })
    }

    /// Runs turn by turn, with control in between.
    pub fn steps(self) -> Steps<'a, O> {
        Steps { engine: self.engine, conversation: self.conversation }
    }
}

impl<'a, O: 'a> IntoFuture for Run<'a, O> {
    type Output = Result<RunResult<O>, LoopError>;
    type IntoFuture = WasmBoxedFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { mut engine, conversation } = self;
        Box::pin(async move { engine.finish(conversation, Way::Whole).await })
    }
}

/// Gives the conversation of an owned run back when its future ends or is dropped.
struct Lent {
    conversation: Conversation,
    handle: RunHandle,
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.handle.give_back(std::mem::take(&mut self.conversation));
    }
}

impl<O: 'static> OwnedRun<O> {
    /// The future of the run, and the handle to which it gives the conversation back.
    fn task(
        mut self,
        slot: Option<Slot>,
    ) -> (RunHandle, WasmBoxedFuture<'static, Result<RunResult<O>, LoopError>>) {
        let handle = self.handle();
        let Self { mut engine, conversation } = self;
        let mut lent = Lent { conversation, handle: handle.clone() };
        let task = Box::pin(async move {
            let way = slot.as_ref().map_or(Way::Whole, |slot| Way::Stream(slot));
            engine.finish(&mut lent.conversation, way).await
        });
        (handle, task)
    }

    /// Runs as a stream of events. The run happens while the stream is polled.
    pub fn stream(self) -> OwnedStream<O> {
        let mut home = None;
        let stream = RunStream::new(|slot| {
            let (handle, task) = self.task(Some(slot));
            home = Some(handle);
            task
        });
        OwnedStream { stream, handle: home.unwrap_or_default() }
    }

    /// Splits the run into its events and a future to spawn. The run goes on when the events are dropped.
    pub fn detach(
        self,
    ) -> (RunEvents, impl Future<Output = Finished<O>> + WasmCompatSend + 'static) {
        let slot = Slot::default();
        let (handle, task) = self.task(Some(slot.clone()));
        let events = RunEvents(slot.clone());
        (events, async move {
            let result = task.await;
            slot.close();
            Finished { conversation: handle.take_conversation().unwrap_or_default(), result }
        })
    }
}

impl<O: 'static> IntoFuture for OwnedRun<O> {
    type Output = Finished<O>;
    type IntoFuture = WasmBoxedFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let (handle, task) = self.task(None);
        Box::pin(async move {
            let result = task.await;
            Finished { conversation: handle.take_conversation().unwrap_or_default(), result }
        })
    }
}

impl<O, C> fmt::Debug for Run<'_, O, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("agent", &self.engine.agent).finish_non_exhaustive()
    }
}
