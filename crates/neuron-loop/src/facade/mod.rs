//! [`AgentLoop`] holds an agent and its conversation in one value, with a provider that may be borrowed.

mod watch;

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, ready};

use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, BoxedHook, ContextStrategy, Durability, DurableContext, LoopConfig, LoopError,
    Message, ObservabilityHook, Provider, Start, SystemPrompt, ToolContext, UsageLimits,
    WasmCompatSend,
};

pub use watch::{AgentStream, StepIterator, TurnResult};

use crate::agent::setters;
use crate::ledger::Ledger;
use crate::parts::{Definition, Parts, Reader};
use crate::run::{Driven, Events, Live, Step, agent_result, begin, drive};

/// An agent with one conversation. Each run adds one user message to the conversation and answers it.
///
/// This type has the plain defaults of [`LoopConfig`], where a failing tool ends the run, and there are no limits and
/// no retries.
///
/// Use [`Agent`](crate::Agent) instead to share an agent between conversations, or for sessions, approvals, typed runs
/// and detached runs.
///
/// `D` is the type of the durable context. The default, [`Durability`], holds a context of any type.
///
/// # Example
///
/// ```
/// # use neuron_context::SlidingWindowStrategy;
/// # use neuron_loop::{AgentLoop, LoopError};
/// # use neuron_testing::ScriptedProvider;
/// # use neuron_types::ToolContext;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LoopError> {
/// # let (provider, context) = (ScriptedProvider::new(["4"]), SlidingWindowStrategy::new(20, 100_000));
/// let mut agent = AgentLoop::builder(provider, context)
///     .system_prompt("You are a calculator.")
///     .max_turns(5)
///     .build();
/// let result = agent.run_text("What is 2 + 2?", &ToolContext::default()).await?;
/// assert_eq!(result.response, "4");
/// # Ok(())
/// # }
/// ```
pub struct AgentLoop<P, C, D = Durability<'static>> {
    provider: P,
    context: C,
    durability: Option<D>,
    definition: Definition,
    ledger: Ledger,
}

impl<P: Provider, C: ContextStrategy> AgentLoop<P, C> {
    /// Starts building an agent.
    pub fn builder(provider: P, context: C) -> AgentLoopBuilder<P, C> {
        let (tools, config) = Default::default();
        AgentLoopBuilder { agent: Self::new(provider, tools, context, config) }
    }

    /// Creates an agent from its parts.
    pub fn new(provider: P, tools: ToolRegistry, context: C, config: LoopConfig) -> Self {
        let mut definition = Definition::default();
        (definition.tools, definition.config) = (tools, config);
        Self { provider, context, durability: None, definition, ledger: Ledger::default() }
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    /// Returns the messages of the conversation, oldest first.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.ledger.messages()
    }

    /// Returns the agent's tools.
    #[must_use]
    pub fn tools(&self) -> &ToolRegistry {
        &self.definition.tools
    }

    /// Returns the agent's settings.
    #[must_use]
    pub fn config(&self) -> &LoopConfig {
        &self.definition.config
    }

    /// Adds a hook after the existing hooks.
    pub fn add_hook(&mut self, hook: impl ObservabilityHook + 'static) {
        self.definition.changed().hooks.push(BoxedHook::new(hook));
    }
}

impl<'d, P, C> AgentLoop<P, C, Durability<'d>> {
    /// Sets a durable engine that executes all further model calls and tool calls.
    pub fn set_durability(&mut self, context: impl DurableContext + 'd) {
        self.durability = Some(Durability::new(context));
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Borrows the agent's parts, the durable engine and the conversation separately, so that a run can hold all of
    /// them.
    fn lend(&mut self) -> (Parts<'_>, Option<Durability<'_>>, &mut Ledger) {
        let Self { provider, context, durability, definition, ledger } = self;
        let durability = durability.as_ref().map(Durability::new);
        (Parts::new(provider, context, definition), durability, ledger)
    }

    /// Runs to the end of the run, or of the next step if `reader` receives steps.
    async fn drive(&mut self, run: &mut Live<'_>, reader: Reader<'_>) -> Option<Driven> {
        let (parts, durability, ledger) = self.lend();
        let parts = Parts { durability: durability.as_ref(), ..parts };
        drive(parts, ledger, run, reader).await
    }

    /// Runs to the model's final response.
    async fn finish(
        &mut self,
        message: Message,
        ctx: &ToolContext,
        reader: Reader<'_>,
    ) -> Result<AgentResult, LoopError> {
        match self.drive(&mut begin_with(message, ctx), reader).await {
            Some(Ok(Step::Ended(result))) => Ok(agent_result(&self.ledger, &result)),
            Some(Err(error)) => Err(error),
            _ => Err(LoopError::Cancelled),
        }
    }

    /// Adds a message to the conversation and runs until the model gives its final response.
    ///
    /// # Errors
    ///
    /// See [`LoopError`]. The conversation is valid after any error, and the next run continues it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the run. The results of finished tool calls stay in the conversation. Unfinished calls
    /// get a result that says so. To end the run with [`LoopError::Cancelled`] instead, cancel
    /// [`ToolContext::cancellation_token`].
    pub fn run(
        &mut self,
        message: Message,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend {
        self.finish(message, ctx, Reader::Nobody)
    }

    /// Calls [`run`](Self::run) with a text message.
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Same as [`run`](Self::run).
    pub fn run_text<'a>(
        &'a mut self,
        text: &str,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend + use<'a, P, C, D>
    {
        self.run(Message::user(text), ctx)
    }

    /// Does the same as [`run`](Self::run), but returns a stream of text, tool calls and tool results. The run makes
    /// progress only while the stream is polled. See [`AgentStream`].
    pub fn run_stream<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = AgentStream<'a>> + WasmCompatSend {
        ready(AgentStream(Events::new(|slot| {
            Box::pin(async move { self.finish(message, ctx, Reader::Stream(&slot)).await })
        })))
    }

    /// Like [`run`](Self::run), but returns control to the caller after each turn. See [`StepIterator`]. The message is
    /// in the conversation at once, also if the iterator is dropped.
    pub fn run_step<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> StepIterator<'a, P, C, D> {
        let mut run = begin_with(message, ctx);
        // FAULT the message of a run of steps is not seen before its first turn: without the line
        //     (steps::conversation_shows_the_message_and_what_was_injected_before_the_first_turn)
        self.begin(&mut run);
        StepIterator { agent: self, run }
    }

    /// Begins a run before it is driven, so that the conversation already has its message.
    fn begin(&mut self, run: &mut Live<'_>) {
        let (parts, durability, ledger) = self.lend();
        let parts = Parts { durability: durability.as_ref(), ..parts };
        // Never an error, because the run starts with a message.
        begin(parts, ledger, run).ok();
    }
}

/// Returns the state of a run that starts with a message and has not begun.
fn begin_with(message: Message, ctx: &ToolContext) -> Live<'_> {
    Live { start: Some(Start::Message(message)), ctx: Cow::Borrowed(ctx), ..Live::default() }
}

impl<P, C, D> fmt::Debug for AgentLoop<P, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoop")
            .field("messages", &self.ledger.messages().len())
            .field("tools", &self.definition.tools)
            .field("config", &self.definition.config)
            .finish_non_exhaustive()
    }
}

/// Builds an [`AgentLoop`]. Made by [`AgentLoop::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct AgentLoopBuilder<P, C, D = Durability<'static>> {
    agent: AgentLoop<P, C, D>,
}

setters! { AgentLoopBuilder<P, C, D>:
    /// Sets the tools. Default: none.
    tools(tools: ToolRegistry) => |it| it.tools = tools;

    /// Sets the instructions for the model. Default: none.
    system_prompt(prompt: impl Into<SystemPrompt>) => |it| it.config.system_prompt = prompt.into();

    /// Limits the model calls of one run. Default: no limit.
    max_turns(turns: usize) => |it| it.config.max_turns = Some(turns);

    /// Sets whether the tool calls of one response run concurrently. Default: `false`.
    parallel_tool_execution(parallel: bool) => |it| it.config.parallel_tool_execution = parallel;

    /// Limits the tokens, requests and tool calls of one run. Default: no limits.
    usage_limits(limits: UsageLimits) => |it| it.config.usage_limits = Some(limits);

    /// Adds a hook after the existing hooks.
    hook(hook: impl ObservabilityHook + 'static) => |it| it.hooks.push(BoxedHook::new(hook));
}

impl<P, C, D> AgentLoopBuilder<P, C, D> {
    fn change(mut self, change: impl FnOnce(&mut Definition)) -> Self {
        change(&mut self.agent.definition);
        self
    }

    /// Sets a durable engine that executes all model calls and tool calls. The context may borrow from the engine.
    pub fn durability<'d>(
        self,
        context: impl DurableContext + 'd,
    ) -> AgentLoopBuilder<P, C, Durability<'d>> {
        let AgentLoop { provider, context: strategy, definition, ledger, .. } = self.agent;
        let durability = Some(Durability::new(context));
        let agent = AgentLoop { provider, context: strategy, durability, definition, ledger };
        AgentLoopBuilder { agent }
    }

    /// Builds the agent.
    #[must_use]
    pub fn build(self) -> AgentLoop<P, C, D> {
        self.agent
    }
}

impl<P, C, D> fmt::Debug for AgentLoopBuilder<P, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoopBuilder").field("agent", &self.agent).finish()
    }
}
