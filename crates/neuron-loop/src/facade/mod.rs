//! [`AgentLoop`] is an agent with its conversation in one value, over a provider that may be borrowed.

mod builder;
mod steps;
mod stream;

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, ready};

use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, BoxedHook, ContextStrategy, Durability, DurableContext, LoopConfig, LoopError,
    Message, ObservabilityHook, Provider, Start, ToolContext, WasmCompatSend,
};

pub use builder::AgentLoopBuilder;
pub use steps::{StepIterator, TurnResult};
pub use stream::AgentStream;

use crate::ledger::Ledger;
use crate::parts::{Definition, Parts, Reader};
use crate::run::{Events, Live, Step, agent_result, drive};

/// An agent with one conversation. Each run continues the conversation with one more message of the user.
///
/// [`Agent`](crate::Agent) shares one definition between conversations and does more: sessions, approvals, typed runs,
/// detached runs. This type has the defaults that its [configuration](LoopConfig) says: tools that fail end the run,
/// and nothing is limited or tried again.
///
/// `D` is the type of the durable context; almost always its default, [`Durability`], which holds any.
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
    /// Returns the conversation.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.ledger.messages
    }

    /// Returns the tools.
    #[must_use]
    pub fn tools(&self) -> &ToolRegistry {
        &self.definition.tools
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &LoopConfig {
        &self.definition.config
    }

    /// Adds a hook, after those added before.
    pub fn add_hook(&mut self, hook: impl ObservabilityHook + 'static) {
        self.definition.changed().hooks.push(BoxedHook::new(hook));
    }
}

impl<'d, P, C> AgentLoop<P, C, Durability<'d>> {
    /// Lets a durable engine carry out all calls of the model and of tools from now on.
    pub fn set_durability(&mut self, context: impl DurableContext + 'd) {
        self.durability = Some(Durability::new(context));
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Lends the parts and the conversation apart.
    fn lend(&mut self) -> (Parts<'_>, Option<Durability<'_>>, &mut Ledger) {
        let Self { provider, context, durability, definition, ledger } = self;
        let durability = durability.as_ref().map(Durability::new);
        (Parts::new(provider, context, definition), durability, ledger)
    }

    async fn drive(
        &mut self,
        message: Message,
        ctx: &ToolContext,
        reader: Reader<'_>,
    ) -> Result<AgentResult, LoopError> {
        let (parts, durability, ledger) = self.lend();
        let parts = parts.with_durability(durability.as_ref());
        let mut run = begin(message, ctx);
        match drive(parts, None, ledger, &mut run, reader).await {
            Some(Ok(Step::Ended(result))) => Ok(agent_result(ledger, &result)),
            Some(Err(error)) => Err(error),
            _ => Err(LoopError::Cancelled),
        }
    }

    /// Adds a message to the conversation and runs to the model's answer.
    ///
    /// # Errors
    ///
    /// See [`LoopError`]. The conversation is valid after any of them, and the next run continues it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the run. Results of tools that finished are in the conversation, and other calls have
    /// a result that says so. To stop it with an answer, cancel [`ToolContext::cancellation_token`].
    pub fn run(
        &mut self,
        message: Message,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, LoopError>> + WasmCompatSend {
        self.drive(message, ctx, Reader::Nobody)
    }

    /// [`run`](Self::run) with a text.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
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

    /// [`run`](Self::run) as a stream of text, tool calls and their results. The run happens while the
    /// stream is polled. See [`AgentStream`].
    pub fn run_stream<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = AgentStream<'a>> + WasmCompatSend {
        ready(AgentStream(Events::new(|slot| {
            Box::pin(async move { self.drive(message, ctx, Reader::Stream(&slot)).await })
        })))
    }

    /// [`run`](Self::run) turn by turn, with control in between. See [`StepIterator`].
    pub fn run_step<'a>(
        &'a mut self,
        message: Message,
        ctx: &'a ToolContext,
    ) -> StepIterator<'a, P, C, D> {
        StepIterator { agent: self, run: begin(message, ctx) }
    }
}

fn begin(message: Message, ctx: &ToolContext) -> Live<'_> {
    Live { start: Some(Start::Message(message)), ctx: Cow::Borrowed(ctx), ..Live::default() }
}

impl<P, C, D> fmt::Debug for AgentLoop<P, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoop")
            .field("messages", &self.ledger.messages.len())
            .field("tools", &self.definition.tools)
            .field("config", &self.definition.config)
            .finish_non_exhaustive()
    }
}
