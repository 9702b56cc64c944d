//! [`AgentLoop`]: an agent with its conversation in one value.

mod builder;
mod steps;
mod stream;

use std::fmt;
use std::future::{Future, ready};

use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ApprovalDecisions, ApprovalError, BoxedHook, ContextStrategy, Durability,
    DurableContext, LoopError, Message, ObservabilityHook, PendingApproval, PendingCall, Provider,
    RunStart, Session, TokenUsage, ToolContext, WasmCompatSend,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use builder::AgentLoopBuilder;
pub use steps::{StepIterator, TurnResult};
pub use stream::AgentStream;

use crate::conversation::{Start, from_pending, from_snapshot};
use crate::ledger::Ledger;
use crate::model::Retry;
use crate::parts::{Definition, Parts};
use crate::run::{
    ActiveRun, Live, RunContext, RunResult, Step, TypedOutput, Way, agent_result, drive,
    read_output, typed_output,
};
use crate::settings::{Budget, LoopConfig};

/// An agent: a model, its tools, a strategy for its context, and a conversation.
///
/// Each run continues the conversation with one more message of the user; limits and usage count
/// for each run anew. The loop is described at the [crate's page](crate).
///
/// `D` is the durable context's type; almost always its default, [`Durability`], which holds any.
pub struct AgentLoop<P, C, D = Durability<'static>> {
    provider: P,
    context: C,
    durability: Option<D>,
    definition: Definition,
    pub(crate) ledger: Ledger,
}

impl<P: Provider, C: ContextStrategy> AgentLoop<P, C> {
    /// Starts building an agent.
    pub fn builder(provider: P, context: C) -> AgentLoopBuilder<P, C> {
        AgentLoopBuilder::new(provider, context)
    }

    /// Creates an agent from its parts.
    pub fn new(provider: P, tools: ToolRegistry, context: C, config: LoopConfig) -> Self {
        let mut definition = Definition::default();
        (definition.tools, definition.config) = (tools, config);
        Self::assemble(provider, context, None, definition, Vec::new())
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    fn assemble(
        provider: P,
        context: C,
        durability: Option<D>,
        definition: Definition,
        messages: Vec<Message>,
    ) -> Self {
        let ledger = Ledger::from_messages(messages);
        let mut agent = Self { provider, context, durability, definition, ledger };
        agent.update_retries();
        agent
    }

    fn update_retries(&mut self) {
        let retries = self.definition.config.retries;
        self.definition.changed().retry =
            (retries > 0).then(|| neuron_types::BoxedLayer::new(Retry { retries }));
    }

    /// Returns the conversation. It is valid
    /// ([`transcript::validate`](neuron_types::transcript::validate)) at any time, however a run
    /// ended.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.ledger.messages
    }

    /// Returns the tokens of the current run, or the last, with [those that its tools
    /// took](Self::tool_usage).
    #[must_use]
    pub fn usage(&self) -> &TokenUsage {
        &self.ledger.run.usage.total
    }

    /// Returns the tokens of all runs together.
    #[must_use]
    pub fn total_usage(&self) -> &TokenUsage {
        &self.ledger.total_usage
    }

    /// Returns the answered calls of the model in the current run, or the last.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.ledger.run.turns
    }

    /// Returns the tools.
    #[must_use]
    pub fn tools(&self) -> &ToolRegistry {
        &self.definition.tools
    }

    /// Returns the tools, to change them for the next call of the model.
    pub fn tools_mut(&mut self) -> &mut ToolRegistry {
        &mut self.definition.changed().tools
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &LoopConfig {
        &self.definition.config
    }

    /// Returns the configuration, to change it for the next run: a higher limit or another model, for
    /// instance. A changed system prompt or model costs the provider's cache of the conversation.
    ///
    /// # Example
    ///
    /// ```
    /// # use neuron_loop::AgentLoop;
    /// # use neuron_types::{ContextStrategy, Provider, ThinkingConfig};
    /// # fn cool<P: Provider, C: ContextStrategy>(agent: &mut AgentLoop<P, C>) {
    /// agent.config_mut().request.temperature = Some(0.0);
    /// agent.config_mut().request.thinking = Some(ThinkingConfig::Disabled);
    /// # }
    /// ```
    pub fn config_mut(&mut self) -> &mut LoopConfig {
        &mut self.definition.changed().config
    }

    /// Returns the calls that need an approval before the run can go on.
    #[must_use]
    pub fn pending_calls(&self) -> Vec<PendingCall> {
        self.ledger.pending_calls().cloned().collect()
    }

    /// Puts the agent where a run stopped with [`LoopError::ApprovalRequired`], in another process
    /// perhaps: its conversation, its counters, and the calls that wait. Then
    /// [`resume`](Self::resume) goes on.
    ///
    /// Build the agent as the one that stopped: the state holds neither tools nor settings, nor what
    /// was taken of a [`Budget`], and no count of turns in which a tool failed.
    /// [`total_usage`](Self::total_usage) counts from here on.
    ///
    /// A stored state does not know whether it was resumed: whoever restores it twice runs its calls
    /// twice. Take it out of the store before. The calls have the same
    /// [`ToolContext::idempotency_key`] each time.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::UnsupportedVersion`], or [`ApprovalError::Malformed`] when the state does not
    /// fit together; the agent is as before.
    pub fn restore(&mut self, pending: PendingApproval) -> Result<(), ApprovalError> {
        self.ledger = from_pending(pending)?;
        Ok(())
    }

    /// Returns the budget that the agent was given. A run may share another one, which it finds in its
    /// context.
    #[must_use]
    pub fn budget(&self) -> Option<&Budget> {
        self.definition.budget.as_ref()
    }

    /// Adds a hook, after those added before. What the model has not answered is new to all of them
    /// again.
    pub fn add_hook(&mut self, hook: impl ObservabilityHook + 'static) {
        self.definition.changed().hooks.push(BoxedHook::new(hook));
        self.ledger.passed_messages = 0;
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    /// Returns the part of [`usage`](Self::usage) that is an estimate.
    #[must_use]
    pub fn estimated_usage(&self) -> &TokenUsage {
        &self.ledger.run.usage.estimated
    }

    /// Returns the part of [`usage`](Self::usage) that tools took.
    #[must_use]
    pub fn tool_usage(&self) -> &TokenUsage {
        &self.ledger.run.usage.tools
    }

    /// Takes the conversation from a session, in place of its own.
    pub fn restore_session(&mut self, session: &Session) {
        self.ledger = Ledger::from_messages(session.messages.clone());
        self.ledger.total_usage = session.state.token_usage.clone();
    }

    /// Writes the conversation and [`total_usage`](Self::total_usage) into a session, which was changed now.
    pub fn write_session(&self, session: &mut Session) {
        session.messages.clone_from(&self.ledger.messages);
        session.state.token_usage.clone_from(&self.ledger.total_usage);
        session.touch();
    }

    /// Returns the messages that came since a session was written or restored.
    #[must_use]
    pub fn messages_since(&self, session: &Session) -> Option<&[Message]> {
        self.ledger.messages.strip_prefix(session.messages.as_slice())
    }
}

impl<'d, P, C> AgentLoop<P, C, Durability<'d>> {
    /// Lets a durable engine carry out all calls of the model and of tools from now on.
    pub fn set_durability(&mut self, context: impl DurableContext + 'd) {
        self.durability = Some(Durability::new(context));
    }
}

/// The outcome of a typed run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TypedResult<T> {
    /// The output.
    pub value: T,
    /// The run's outcome.
    pub result: AgentResult,
}

/// How a run of the facade starts.
type FacadeStart = Result<Start, LoopError>;

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Lends the parts and the conversation apart.
    fn lend(&mut self) -> (Parts<'_>, Option<Durability<'_>>, &mut Ledger) {
        let Self { provider, context, durability, definition, ledger } = self;
        let durability = durability.as_ref().map(|context| Durability::new(context));
        let parts = Parts { model: provider, strategy: context, definition, durability: None };
        (parts, durability, ledger)
    }

    /// Drives a run to its end.
    async fn drive(
        &mut self,
        start: FacadeStart,
        ctx: &ToolContext,
        typed: Option<fn(Parts<'_>) -> TypedOutput>,
        way: Way<'_>,
    ) -> Result<RunResult<Option<Value>>, LoopError> {
        let start = start?;
        let (parts, durability, ledger) = self.lend();
        let parts = parts.with_durability(durability.as_ref());
        let mut live = Live::new(start, RunContext::Borrowed(ctx));
        live.typed = typed;
        let driven = drive(parts, None, ledger, &mut ActiveRun::from(live), way).await;
        match driven {
            Some(Ok(Step::Ended(result))) => Ok(result),
            Some(Err(error)) => Err(error),
            _ => Err(LoopError::Cancelled),
        }
    }

    async fn whole(
        &mut self,
        start: FacadeStart,
        ctx: &ToolContext,
    ) -> Result<AgentResult, LoopError> {
        let result = self.drive(start, ctx, None, Way::Whole).await?;
        Ok(agent_result(&self.ledger, &result))
    }

    fn stream_from<'a>(&'a mut self, start: FacadeStart, ctx: &'a ToolContext) -> AgentStream<'a> {
        AgentStream::new(|slot| async move {
            let result = self.drive(start, ctx, None, Way::Stream(&slot)).await?;
            Ok(agent_result(&self.ledger, &result))
        })
    }

    async fn typed_from<T: DeserializeOwned + JsonSchema>(
        &mut self,
        start: FacadeStart,
        ctx: &ToolContext,
    ) -> Result<TypedResult<T>, LoopError> {
        let result = self.drive(start, ctx, Some(typed_output::<T>), Way::Whole).await?;
        let mode = self.definition.config.output_mode;
        let invalid = |raw: String, reason: String| {
            self.ledger.invalid_output(raw, reason, &result.stop_reason)
        };
        let Some(value) = result.output.clone() else {
            let reason = "the run ended before the model gave its output";
            return Err(invalid(result.response.clone(), reason.into()));
        };
        let raw = value.to_string();
        let value =
            read_output::<T>(mode, value).map_err(|error| invalid(raw, error.to_string()))?;
        Ok(TypedResult { value, result: agent_result(&self.ledger, &result) })
    }

    /// The start of a run that goes on from another execution.
    fn start_from(&mut self, start: RunStart) -> FacadeStart {
        match start {
            RunStart::Message(message) => Ok(Start::Message(message)),
            RunStart::Snapshot(snapshot) => {
                self.ledger = from_snapshot(*snapshot)?;
                Ok(Start::Continue)
            }
            _ => Err(neuron_types::DurableError::Other(
                "this release does not know what the run starts from".into(),
            )
            .into()),
        }
    }

    /// The start of another run without a message.
    fn start_again(&mut self) -> FacadeStart {
        if self.ledger.pending_calls().next().is_none() {
            self.ledger.abandon();
        }
        Ok(Start::Continue)
    }

    /// Adds a message to the conversation and runs to the model's answer.
    ///
    /// # Errors
    ///
    /// See [`LoopError`]. The conversation is valid after any of them, and the next run continues it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the run: results of tools that finished are in the conversation, and other calls have a
    /// result that says so.
    pub fn run(
        &mut self,
        message: Message,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend {
        self.whole(Ok(Start::Message(message)), ctx)
    }

    /// [`run`](Self::run) with a text.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_text<'a>(
        &'a mut self,
        text: &str,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend + use<'a, P, C, D>
    {
        self.run(Message::user(text), ctx)
    }

    /// Runs from the conversation as it is.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn continue_run(
        &mut self,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend {
        let start = self.start_again();
        self.whole(start, ctx)
    }

    /// [`run`](Self::run) as a stream of events.
    pub fn run_stream<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = AgentStream<'a>> + WasmCompatSend {
        ready(self.stream_from(Ok(Start::Message(message)), ctx))
    }

    /// [`run_stream`](Self::run_stream) as a stream that owns the agent.
    pub fn into_stream<'a>(mut self, message: Message, ctx: ToolContext) -> AgentStream<'a>
    where
        Self: 'a,
    {
        AgentStream::new(|slot| async move {
            let start = Ok(Start::Message(message));
            let result = self.drive(start, &ctx, None, Way::Stream(&slot)).await?;
            Ok(agent_result(&self.ledger, &result))
        })
    }

    /// [`run`](Self::run) turn by turn, with control in between; see [`StepIterator`].
    pub fn run_step<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> StepIterator<'a, P, C, D> {
        StepIterator::new(self, ctx, Ok(Start::Message(message)))
    }

    /// Goes on with a run that waits for an approval.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); [`LoopError::Approval`] when the decisions do not fit.
    pub fn resume(
        &mut self,
        decisions: ApprovalDecisions,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend {
        self.whole(Ok(Start::Decide(decisions)), ctx)
    }

    /// [`resume`](Self::resume) as a stream of events.
    pub fn resume_stream<'a>(
        &'a mut self,
        decisions: ApprovalDecisions,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = AgentStream<'a>> + WasmCompatSend {
        ready(self.stream_from(Ok(Start::Decide(decisions)), ctx))
    }

    /// [`resume`](Self::resume) turn by turn.
    pub fn resume_step<'a>(
        &'a mut self,
        decisions: ApprovalDecisions,
        ctx: &'a ToolContext,
    ) -> StepIterator<'a, P, C, D> {
        StepIterator::new(self, ctx, Ok(Start::Decide(decisions)))
    }

    /// Runs from where an execution of a durable engine starts.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub fn run_from(
        &mut self,
        start: impl Into<RunStart>,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend {
        let start = self.start_from(start.into());
        self.whole(start, ctx)
    }

    /// [`run_from`](Self::run_from) as a stream of events.
    pub fn run_from_stream<'a>(
        &'a mut self,
        start: impl Into<RunStart>,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = AgentStream<'a>> + WasmCompatSend {
        let start = self.start_from(start.into());
        ready(self.stream_from(start, ctx))
    }

    /// [`run_from`](Self::run_from) turn by turn.
    pub fn run_from_step<'a>(
        &'a mut self,
        start: impl Into<RunStart>,
        ctx: &'a ToolContext,
    ) -> StepIterator<'a, P, C, D> {
        let start = self.start_from(start.into());
        StepIterator::new(self, ctx, start)
    }

    /// Adds a message to the conversation and runs until the model gives a value of type `T`.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); [`LoopError::InvalidOutput`] without an output that fits.
    pub fn run_typed<T: DeserializeOwned + JsonSchema>(
        &mut self,
        message: Message,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<TypedResult<T>, LoopError>> + WasmCompatSend {
        self.typed_from(Ok(Start::Message(message)), ctx)
    }

    /// [`run_from`](Self::run_from) until the model gives a value of type `T`.
    ///
    /// # Errors
    ///
    /// As [`run_typed`](Self::run_typed).
    pub fn run_typed_from<T: DeserializeOwned + JsonSchema>(
        &mut self,
        start: impl Into<RunStart>,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<TypedResult<T>, LoopError>> + WasmCompatSend {
        let start = self.start_from(start.into());
        self.typed_from(start, ctx)
    }

    /// [`resume`](Self::resume) until the model gives a value of type `T`.
    ///
    /// # Errors
    ///
    /// As [`run_typed`](Self::run_typed).
    pub fn resume_typed<T: DeserializeOwned + JsonSchema>(
        &mut self,
        decisions: ApprovalDecisions,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<TypedResult<T>, LoopError>> + WasmCompatSend {
        self.typed_from(Ok(Start::Decide(decisions)), ctx)
    }
}

impl<P, C, D> fmt::Debug for AgentLoop<P, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoop")
            .field("messages", &self.ledger.messages.len())
            .field("tools", &self.definition.tools)
            .field("hooks", &self.definition.hooks.len())
            .field("durable", &self.durability.is_some())
            .field("config", &self.definition.config)
            .finish_non_exhaustive()
    }
}
