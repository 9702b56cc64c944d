//! The tools of a run's agent.

use crate::{Message, ToolDefinition, ToolUseRef};

/// The tools of a run's agent, for layers and other callbacks.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct RunTools<'a> {
    /// The definitions in the agent's requests, in registration order, with the output tool of a typed run at the end.
    /// A layer may send fewer.
    pub visible: &'a [ToolDefinition],
    /// The definitions of the deferred tools, which are not in the requests. `None` if the agent does not defer tools.
    pub deferred: Option<&'a [ToolDefinition]>,
}

impl<'a> RunTools<'a> {
    /// Creates the tools from the definitions in the requests, and the deferred definitions.
    #[must_use]
    pub fn new(visible: &'a [ToolDefinition], deferred: Option<&'a [ToolDefinition]>) -> Self {
        Self { visible, deferred }
    }

    /// Returns the definition of a visible or deferred tool. Returns `None` if the agent has no tool with this name.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a ToolDefinition> {
        let mut all = self.visible.iter().chain(self.deferred.unwrap_or_default());
        all.find(|tool| tool.name == name)
    }

    /// Iterates over the tool calls of a response. If the agent defers tools, a call of [`CALL_TOOL`](crate::CALL_TOOL) is replaced by its
    /// [target](ToolUseRef::target). Otherwise a tool with this name is an ordinary tool.
    pub fn calls_in<'m>(
        self,
        response: &'m Message,
    ) -> impl Iterator<Item = ToolUseRef<'m>> + use<'m> {
        let defers = self.deferred.is_some();
        response.tool_uses().map(move |call| if defers { call.target() } else { call })
    }
}
