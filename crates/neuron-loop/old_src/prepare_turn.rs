//! The callback before each call of the model, and what it may change for that call.

use neuron_types::{SystemPrompt, ToolDefinition, WasmCompatSend, WasmCompatSync};

use crate::{RequestSettings, RunView};

/// What the next call of the model will send, to change it for that call alone; given to the callbacks
/// of [`prepare_turn`](crate::AgentLoopBuilder::prepare_turn).
#[derive(Debug)]
pub struct TurnSetup<'a> {
    /// The run so far.
    pub run: RunView<'a>,
    /// Model, sampling, tool choice, thinking and so on.
    pub settings: RequestSettings,
    /// The instructions for the model; empty for none.
    pub system_prompt: SystemPrompt,
    tools: &'a [ToolDefinition],
    /// For each tool, whether it is offered.
    offered: Vec<bool>,
}

impl<'a> TurnSetup<'a> {
    pub(crate) fn new(
        run: RunView<'a>,
        settings: RequestSettings,
        system_prompt: SystemPrompt,
        tools: &'a [ToolDefinition],
    ) -> Self {
        let offered = vec![true; tools.len()];
        Self { run, settings, system_prompt, tools, offered }
    }

    /// Returns the tools that are offered to the model, in registration order.
    pub fn tools(&self) -> impl Iterator<Item = &ToolDefinition> {
        let tools = self.tools.iter().zip(&self.offered);
        tools.filter_map(|(tool, offered)| offered.then_some(tool))
    }

    /// Of the tools that are offered, offers only those for which the answer is `true`. One that is
    /// not offered is unknown for the turn: calling it nevertheless is calling a tool that does not
    /// exist.
    pub fn retain_tools(&mut self, mut is_offered: impl FnMut(&ToolDefinition) -> bool) {
        for (tool, offered) in self.tools.iter().zip(&mut self.offered) {
            *offered = *offered && is_offered(tool);
        }
    }

    /// Returns the definitions to offer; `None` if these are all.
    pub(crate) fn fewer_tools(&self) -> Option<Vec<ToolDefinition>> {
        let is_fewer = self.offered.contains(&false);
        is_fewer.then(|| self.tools().cloned().collect())
    }
}

/// A callback of [`prepare_turn`](crate::AgentLoopBuilder::prepare_turn).
pub(crate) trait PrepareTurn: WasmCompatSend + WasmCompatSync {
    fn prepare(&self, turn: &mut TurnSetup<'_>);
}

impl<F> PrepareTurn for F
where
    F: Fn(&mut TurnSetup<'_>) + WasmCompatSend + WasmCompatSync,
{
    fn prepare(&self, turn: &mut TurnSetup<'_>) {
        self(turn);
    }
}
