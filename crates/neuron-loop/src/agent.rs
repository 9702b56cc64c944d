//! The definition of an agent.

use std::fmt;
use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_types::{ContextStrategyDyn, LoopConfig, ProviderDyn};

use crate::parts::{Definition, Parts};

/// The definition of an agent, with its model, tools and settings. Any number of
/// [conversations](crate::Conversation) can share it. Cloning is cheap.
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

    /// Borrows the model, the strategy and the definition for one run.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let Inner { model, strategy, definition } = &*self.0;
        Parts::new(&**model, &**strategy, definition)
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
