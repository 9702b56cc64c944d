//! Tools that came from another registry, each with what that registry put around it.

use std::sync::Arc;

use neuron_types::{
    ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::Value;

use crate::ToolRegistry;
use crate::registry::Registered;

/// Returns the tools of a registry under names with a prefix.
pub(crate) fn tools(prefix: &str, registry: ToolRegistry) -> Vec<Registered> {
    if prefix.is_empty() && !registry.names().any(|name| registry.has_middleware(name)) {
        return registry.into_tools().collect();
    }
    let registry = Arc::new(registry);
    let rename = |registered: &Registered| {
        let original = &registered.definition;
        let tool = Merged {
            name: format!("{prefix}{}", original.name),
            original: original.clone(),
            registry: registry.clone(),
        };
        Registered::new(Arc::new(tool))
    };
    registry.tools().map(rename).collect()
}

/// A tool that is called through the registry from which it came: under its old name, so that the
/// middleware there still knows it.
struct Merged {
    name: String,
    original: Arc<ToolDefinition>,
    registry: Arc<ToolRegistry>,
}

impl ToolDyn for Merged {
    fn name(&self) -> &str {
        &self.name
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition { name: self.name.clone(), ..(*self.original).clone() }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(self.registry.execute(&self.original.name, input, ctx))
    }

    fn effect(&self) -> ToolEffect {
        let tool = self.registry.get(&self.original.name);
        tool.map_or(ToolEffect::default(), |tool| tool.effect())
    }

    fn runs_alone(&self) -> bool {
        self.registry.get(&self.original.name).is_some_and(|tool| tool.runs_alone())
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        self.registry.get(&self.original.name).map_or(Ok(()), |tool| tool.check_input(input))
    }
}
