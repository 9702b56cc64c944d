//! A run, its settings, and its state that is not stored.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use neuron_types::{
    AgentResult, Budget, ContextStrategy, ContextStrategyDyn, DeltaSlot, Durability, DurableAgent,
    DurableContext, LoopError, Message, OutputSchema, Provider, ProviderDyn, Scopes, Start,
    ToolContext, WasmBoxedFuture, read_json,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{OutputType, RunResult};
use crate::agent::{Agent, Inner};
use crate::conversation::{Conversation, SessionHandle};
use crate::ledger::Ledger;
use crate::parts::{EnclosingRun, Parts, RunHandle, RunScope, Steered, add_budget};

/// A function that converts the output of a run to the type `O`. Its argument is `None` if the run has no output. Its
/// error says why the output is invalid.
pub(super) type Read<O> = fn(Option<Value>) -> Result<O, String>;

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
    pub(super) own: OwnParts<'a>,
    pub(super) live: Live<'a>,
    pub(super) read: Read<O>,
    pub(super) conversation: C,
}

/// What a run uses in addition to its agent, or instead of what the agent has.
#[derive(Default)]
pub(super) struct OwnParts<'a> {
    model: Option<Box<dyn ProviderDyn + 'a>>,
    /// The strategy, and the estimated tokens of the agent's system prompt and tools as it counts them.
    strategy: Option<(Box<dyn ContextStrategyDyn + 'a>, OnceLock<usize>)>,
    durability: Option<Durability<'a>>,
    session: Option<SessionHandle<'a>>,
}

impl OwnParts<'_> {
    /// Borrows these parts for a run of `agent`, with those of the agent.
    pub(super) fn parts<'p>(&'p self, agent: &'p Agent) -> Parts<'p> {
        let Inner { model, strategy, definition } = &*agent.0;
        let mut parts = Parts::new(&**model, &**strategy, definition);
        (parts.durability, parts.session) = (self.durability.as_ref(), self.session.as_ref());
        if let Some(model) = &self.model {
            parts.model = &**model;
        }
        if let Some((strategy, size)) = &self.strategy {
            (parts.strategy, parts.frame_size) = (&**strategy, Some(size));
        }
        parts
    }
}

/// A run that owns its conversation. [`Agent::run_owned`] creates it. Awaiting the run returns the conversation and the
/// outcome. If the run is streamed, stepped or dropped, the conversation is available from [its
/// handle](RunHandle::take_conversation) afterwards.
pub type OwnedRun<O = ()> = Run<'static, O, Lent>;

/// The conversation of an [`OwnedRun`]. On drop, the conversation moves to the run's handle.
#[derive(Debug)]
pub struct Lent {
    conversation: Conversation,
    pub(super) handle: RunHandle,
    /// Passes the events of a detached run to their reader.
    pub(super) events: Option<DeltaSlot>,
}

impl Agent {
    /// Creates a run that continues `conversation` from `start`. The run does nothing until it is awaited, streamed or
    /// stepped.
    pub fn run<'a>(&self, conversation: &'a mut Conversation, start: impl Into<Start>) -> Run<'a> {
        Run::new(self.clone(), conversation, start.into())
    }

    /// Creates a run that owns its conversation, for servers. The conversation is returned whether the run succeeds,
    /// fails or is dropped.
    pub fn run_owned(&self, conversation: Conversation, start: impl Into<Start>) -> OwnedRun {
        let handle = RunHandle::default();
        let lent = Lent { conversation, handle: handle.clone(), events: None };
        let mut run = Run::new(self.clone(), lent, start.into());
        run.live.handle = Some(Steered(handle));
        run
    }
}

/// Lets a durable engine host the agent. Each run has a new conversation.
impl DurableAgent for Agent {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(async move {
            let mut conversation = Conversation::new();
            let result = Agent::run(self, &mut conversation, start).durable(durability).await?;
            Ok(result.with_messages(&conversation))
        })
    }

    fn extend_context(&self, ctx: &mut ToolContext) {
        let (of, depth) = (&self.0.definition, EnclosingRun::depth_around(ctx));
        EnclosingRun::extend_context(of, depth, of.config.pauses(true), &mut ctx.extensions);
        add_budget(of.budget.as_ref(), &mut ctx.extensions);
    }
}

impl<'a, C> Run<'a, (), C> {
    fn new(agent: Agent, conversation: C, start: Start) -> Self {
        let live = Live { start: Some(start), ..Live::default() };
        Self { agent, own: OwnParts::default(), live, read: |_| Ok(()), conversation }
    }

    /// Makes the run end with a value of type `T`. [`LoopConfig::output_mode`](crate::LoopConfig::output_mode) selects
    /// how the model gives the value. If a value does not match the type, the model receives the place and the reason
    /// of the mismatch, and tries again.
    ///
    /// If the model gives no matching value, the run ends with [`LoopError::InvalidOutput`].
    pub fn typed<T: DeserializeOwned + JsonSchema>(self) -> Run<'a, T, C> {
        let Self { agent, own, mut live, conversation, .. } = self;
        live.typed =
            Some(OutputType { object: OutputSchema::of::<T>, plain: OutputSchema::plain::<T> });
        Run { agent, own, live, read: read_output::<T>, conversation }
    }
}

/// Deserialises the output of a typed run.
fn read_output<T: DeserializeOwned>(output: Option<Value>) -> Result<T, String> {
    let missing = || "the run ended before the model gave its output".to_owned();
    read_json(output.ok_or_else(missing)?).map_err(|mismatch| mismatch.to_string())
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
        self.own.model = Some(Box::new(provider));
        self
    }

    /// Sets the context strategy for this run. The strategy may contain references, for example to a durable engine
    /// that journals the strategy's model calls. Default: the agent's strategy.
    pub fn strategy(mut self, strategy: impl ContextStrategy + 'a) -> Self {
        self.own.strategy = Some((Box::new(strategy), OnceLock::new()));
        self
    }

    /// Sets a durable engine that executes all model calls and tool calls of this run.
    pub fn durable(mut self, context: impl DurableContext + 'a) -> Self {
        self.own.durability = Some(Durability::new(context));
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
    /// Any other storage error ends the run with [`LoopError::Storage`]. A run with [`Start::Continue`] then writes
    /// again, and goes on where this one stopped or returns its answer. After a conflict, load the session first.
    pub fn store(mut self, session: &SessionHandle<'a>) -> Self {
        self.own.session = Some(session.clone());
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

/// State of a run that is not stored and that lives longer than one step.
#[derive(Default)]
pub(crate) struct Live<'a> {
    /// The start of the run. Taken when the run begins.
    pub(crate) start: Option<Start>,
    pub(crate) ctx: Cow<'a, ToolContext>,
    /// Messages that the caller added before the run began.
    pub(crate) injected: Vec<Message>,
    pub(crate) budget: Option<Budget>,
    pub(crate) handle: Option<Steered>,
    /// Set if the run waits for approval decisions that arrive through its `RunHandle`.
    pub(crate) waits: bool,
    /// The output type of a typed run.
    pub(crate) typed: Option<OutputType>,
    /// The id, the budget and other values of the run. `None` before the run begins.
    pub(crate) scope: Option<RunScope>,
    pub(crate) progress: Progress,
}

/// The progress of a run, as its hooks see it.
#[derive(Default)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub(crate) enum Progress {
    /// The run has not begun.
    #[default]
    New,
    /// The run has begun, and its outcome is not known.
    Open {
        /// Scopes that the hooks opened around the run, such as tracing spans.
        scopes: Scopes,
        /// Set if the hooks were notified of the start, and so must be notified of the end.
        is_announced: bool,
    },
    /// The outcome is known. The hooks are being notified.
    Ending {
        /// Scopes that the hooks opened around the run, such as tracing spans.
        scopes: Scopes,
        /// Set if the hooks were notified of the start.
        is_announced: bool,
        /// Set once the hooks are being notified of the end, so that they are not notified twice.
        is_told: bool,
        outcome: Result<RunResult<Option<Value>>, LoopError>,
    },
    /// The outcome was returned.
    Over,
}

impl Live<'_> {
    /// Adds a message to the conversation. Before the run has begun, the message is kept and later added after the
    /// message that starts the run.
    pub(crate) fn inject(&mut self, message: Message, ledger: &mut Ledger) {
        match self.start {
            // FAULT a message before the start stands before it: the arm -> `Some(_) => ledger.add_message(message),`
            //     (ends::message_behind_a_stored_answer_begins_another_run)
            Some(_) => self.injected.push(message),
            // The next run answers the message, also if the answer of this one was not stored.
            None if matches!(self.progress, Progress::Over) => ledger.push(message),
            None => ledger.add_message(message),
        }
    }
}
