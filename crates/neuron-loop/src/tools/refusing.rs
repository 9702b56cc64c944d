//! A tool that refuses a call about which nobody was asked.

use std::future::ready;
use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_types::{
    ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::Value;

use super::decide::denial;
use crate::parts::Offered;

/// Why a call does not run whose arguments were wrong when it was made, and then were not.
pub(crate) const NOT_ASKED: &str =
    "a person must be asked about the call, and the model did not make it like this";

/// Stands in the place of a tool that refuses a call. Middleware may mend the arguments: then the tool would run
/// although nobody was asked.
struct Refusing(Arc<dyn ToolDyn>);

/// The same tools, in which the tool of this name never runs.
pub(crate) fn refusing(tools: &Offered<'_>, name: &str) -> ToolRegistry {
    tools.with_tool(name, |tool| Arc::new(Refusing(tool)))
}

impl ToolDyn for Refusing {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn definition(&self) -> ToolDefinition {
        self.0.definition()
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(ready(self.0.check_input(&input).map(|()| denial(NOT_ASKED))))
    }

    fn effect(&self) -> ToolEffect {
        self.0.effect()
    }

    fn runs_alone(&self) -> bool {
        self.0.runs_alone()
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        self.0.check_input(input)
    }
}
