//! A run that has not begun, with its parts and the ways to begin it.

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

use super::live::Live;
use super::watch::{RunEvents, RunStream, Steps};
use super::{OutputType, RunHandle, RunResult, SessionHandle, Step, drive};
use crate::Agent;
use crate::conversation::Conversation;
use crate::parts::Reader;

/// Reads the output of a run. `None` means that there is none.
type Read<O> = fn(Option<Value>) -> Result<O, String>;

/// A run of a conversation. Made by [`Agent::run`]. It does nothing until it is awaited,
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
    pub(super) agent: Agent,
    model: Option<Box<dyn ProviderDyn + 'a>>,
    strategy: Option<Strategy<'a>>,
    durability: Option<Durability<'a>>,
    store: Option<SessionHandle<'a>>,
    pub(super) live: Live<'a>,
    read: Read<O>,
    pub(super) conversation: C,
}

/// A run that owns its conversation. Made by [`Agent::run_owned`]. Awaiting it gives the conversation and the outcome.
/// However it ends, also if it is dropped, the conversation goes to [its handle](RunHandle::take_conversation).
pub type OwnedRun<O = ()> = Run<'static, O, Lent>;

/// The conversation of an [`OwnedRun`].
#[derive(Debug)]
pub struct Lent {
    conversation: Conversation,
    handle: RunHandle,
}

/// A strategy for one run.
struct Strategy<'a> {
    strategy: Box<dyn ContextStrategyDyn + 'a>,
    /// Its estimate of the agent's frame.
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

    /// Lets the run end with a value of a type. The model gives it in the way that
    /// [`LoopConfig::output_mode`](crate::LoopConfig::output_mode) says. A value that does not fit goes back to the
    /// model with the place and the reason.
    ///
    /// A run without a value that fits ends with [`LoopError::InvalidOutput`].
    pub fn typed<T: DeserializeOwned + JsonSchema>(self) -> Run<'a, T, C> {
        let Self { agent, model, strategy, durability, store, mut live, conversation, .. } = self;
        live.typed =
            Some(OutputType { object: OutputSchema::of::<T>, plain: OutputSchema::plain::<T> });
        let read = read_output::<T>;
        Run { agent, model, strategy, durability, store, live, read, conversation }
    }
}

fn read_output<T: DeserializeOwned>(output: Option<Value>) -> Result<T, String> {
    let missing = || "the run ended before the model gave its output".to_owned();
    read_json(output.ok_or_else(missing)?).map_err(|mismatch| mismatch.to_string())
}

impl OwnedRun {
    pub(crate) fn owned(agent: Agent, conversation: Conversation, start: Start) -> Self {
        let handle = RunHandle::default();
        let mut run = Run::new(agent, Lent { conversation, handle: handle.clone() }, start);
        run.live.handle = Some(handle);
        run
    }
}

impl<'a, O, C> Run<'a, O, C> {
    /// Sets the context of the caller, borrowed or owned. It has the cancellation, the session and extensions for
    /// tools. Default: [`ToolContext::default`].
    pub fn context(mut self, ctx: impl Into<Cow<'a, ToolContext>>) -> Self {
        self.live.ctx = ctx.into();
        self
    }

    /// Lets another provider answer in this run, which may be borrowed.
    pub fn provider(mut self, provider: impl Provider + 'a) -> Self {
        self.model = Some(Box::new(provider));
        self
    }

    /// Lets another strategy keep the conversation small in this run. It may borrow: the durable engine that journals
    /// its calls of a model, say.
    pub fn strategy(mut self, strategy: impl ContextStrategy + 'a) -> Self {
        let strategy = Box::new(strategy);
        self.strategy = Some(Strategy { strategy, frame_size: OnceLock::new() });
        self
    }

    /// Lets a durable engine carry out all calls of the model and of tools.
    pub fn durable(mut self, context: impl DurableContext + 'a) -> Self {
        self.durability = Some(Durability::new(context));
        self
    }

    /// Lets the run, and agents within its tools, keep to a budget. Default: the budget of the agent.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.live.budget = Some(budget);
        self
    }

    /// Stores the conversation after each turn, before tools begin, and at the end. A run that fails or is cancelled
    /// stores its end too, and a storage error at that point is only logged.
    pub fn store(mut self, session: &SessionHandle<'a>) -> Self {
        self.store = Some(session.clone());
        self
    }

    /// Lets the run wait where calls need an approval, until [`RunHandle::decide`] is called. Default: it ends with
    /// [`LoopError::ApprovalRequired`].
    pub fn wait_for_approval(mut self) -> Self {
        self.live.waits = true;
        self
    }

    /// Returns a handle that controls the run.
    pub fn handle(&mut self) -> RunHandle {
        self.live.handle.get_or_insert_default().clone()
    }
}

impl<'a, O: 'a, C: DerefMut<Target = Conversation> + WasmCompatSend + 'a> Run<'a, O, C> {
    /// Runs as a stream of events. The run happens while the stream is polled.
    pub fn stream(mut self) -> RunStream<'a, O> {
        RunStream::new(|slot| {
            Box::pin(async move { pin!(self.finish(Reader::Stream(&slot))).await })
        })
    }

    /// Runs turn by turn, with control in between.
    pub fn steps(self) -> Steps<'a, O, C> {
        Steps(self)
    }

    /// Drives the run. `None` if it is over.
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

    /// Drives the run to its end.
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
    /// Splits the run into its events and a future to spawn. The run goes on when the events are dropped.
    pub fn detach(
        self,
    ) -> (
        RunEvents,
        impl Future<Output = (Conversation, Result<RunResult<O>, LoopError>)> + WasmCompatSend + 'static,
    ) {
        let slot = DeltaSlot::default();
        let events = RunEvents(slot.clone());
        (events, async move {
            let ended = pin!(self.end(Reader::Stream(&slot))).await;
            slot.close();
            ended
        })
    }

    async fn end(mut self, reader: Reader<'_>) -> (Conversation, Result<RunResult<O>, LoopError>) {
        let result = pin!(self.finish(reader)).await;
        let handle = self.conversation.handle.clone();
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

/// Gives the conversation back.
impl Drop for Lent {
    fn drop(&mut self) {
        self.handle.give_back(std::mem::take(&mut self.conversation));
    }
}

impl<O, C> fmt::Debug for Run<'_, O, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("agent", &self.agent).finish_non_exhaustive()
    }
}
