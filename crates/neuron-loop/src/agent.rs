//! The definition of an agent.

use std::fmt;
use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ContextStrategyDyn, Durability, DurableAgent, LoopConfig, LoopError, Provider,
    ProviderDyn, Start, ToolContext, WasmBoxedFuture,
};

use crate::builder::AgentBuilder;
use crate::conversation::Conversation;
use crate::parts::{Definition, EnclosingRun, Parts, add_budget};
use crate::run::{OwnedRun, Run};

/// The definition of an agent, with its model, tools and settings. Any number of [conversations](Conversation) can
/// share it. Cloning is cheap.
///
/// # Example
///
/// ```
/// # use neuron_loop::{Agent, Conversation, LoopError};
/// # use neuron_testing::ScriptedProvider;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LoopError> {
/// # let provider = ScriptedProvider::new(["4", "5"]);
/// let agent = Agent::builder(provider).system_prompt("You are a calculator.").build();
///
/// let mut chat = Conversation::new();
/// let result = agent.run(&mut chat, "What is 2 + 2?").await?;
/// assert_eq!(result.response, "4");
/// agent.run(&mut chat, "And one more?").await?;
/// assert_eq!(chat.messages().len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Agent(pub(crate) Arc<Inner>);

/// The state that all clones of an [`Agent`] share.
#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) model: Arc<dyn ProviderDyn>,
    pub(crate) strategy: Arc<dyn ContextStrategyDyn>,
    pub(crate) definition: Definition,
}

impl Agent {
    /// Starts building an agent.
    pub fn builder(provider: impl Provider + 'static) -> AgentBuilder {
        AgentBuilder::new(provider)
    }

    /// Creates a run that continues `conversation` from `start`. The run does nothing until it is awaited, streamed or
    /// stepped.
    pub fn run<'a>(&self, conversation: &'a mut Conversation, start: impl Into<Start>) -> Run<'a> {
        Run::new(self.clone(), conversation, start.into())
    }

    /// Creates a run that owns its conversation, for servers. The conversation is returned whether the run succeeds,
    /// fails or is dropped.
    pub fn run_owned(&self, conversation: Conversation, start: impl Into<Start>) -> OwnedRun {
        Run::owned(self.clone(), conversation, start.into())
    }

    /// Returns the agent's tools.
    #[must_use]
    pub fn tools(&self) -> &ToolRegistry {
        &self.0.definition.tools
    }

    /// Returns the agent's settings.
    #[must_use]
    pub fn config(&self) -> &LoopConfig {
        &self.0.definition.config
    }

    /// Returns a builder with a copy of this agent's settings, tools, hooks and layers.
    pub fn to_builder(&self) -> AgentBuilder {
        let mut inner = Inner::clone(&self.0);
        inner.definition.changed();
        AgentBuilder { inner }
    }

    /// Borrows the model, the strategy and the definition for one run.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let Inner { model, strategy, definition } = &*self.0;
        Parts::new(&**model, &**strategy, definition)
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

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Definition { tools, hooks, config, .. } = &self.definition;
        f.debug_struct("Agent")
            .field("tools", tools)
            .field("hooks", &hooks.len())
            .field("config", config)
            .finish_non_exhaustive()
    }
}
