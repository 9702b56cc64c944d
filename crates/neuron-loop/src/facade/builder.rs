//! Building an [`AgentLoop`].

use std::fmt;

use neuron_tool::ToolRegistry;
use neuron_types::{
    BoxedHook, Durability, DurableContext, ObservabilityHook, SystemPrompt, UsageLimits,
};

use super::AgentLoop;
use crate::parts::Definition;

/// Builds an [`AgentLoop`]. Made by [`AgentLoop::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct AgentLoopBuilder<P, C, D = Durability<'static>> {
    pub(super) agent: AgentLoop<P, C, D>,
}

impl<P, C, D> AgentLoopBuilder<P, C, D> {
    /// Sets the tools. Default: none.
    pub fn tools(self, tools: ToolRegistry) -> Self {
        self.change(|definition| definition.tools = tools)
    }

    /// Sets the instructions for the model. Default: none.
    pub fn system_prompt(self, prompt: impl Into<SystemPrompt>) -> Self {
        self.change(|definition| definition.config.system_prompt = prompt.into())
    }

    /// Limits the model calls of one run. Default: no limit.
    pub fn max_turns(self, turns: usize) -> Self {
        self.change(|definition| definition.config.max_turns = Some(turns))
    }

    /// Sets whether the tool calls of one response run concurrently. Default: `false`.
    pub fn parallel_tool_execution(self, parallel: bool) -> Self {
        self.change(|definition| definition.config.parallel_tool_execution = parallel)
    }

    /// Limits the tokens, requests and tool calls of one run. Default: no limits.
    pub fn usage_limits(self, limits: UsageLimits) -> Self {
        self.change(|definition| definition.config.usage_limits = Some(limits))
    }

    /// Adds a hook after the existing hooks.
    pub fn hook(self, hook: impl ObservabilityHook + 'static) -> Self {
        self.change(|definition| definition.hooks.push(BoxedHook::new(hook)))
    }

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
