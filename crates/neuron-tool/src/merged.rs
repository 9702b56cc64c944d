//! Tools from another registry, with the middleware and sandbox of that registry.

use std::sync::Arc;

use neuron_types::{
    AgentTool, BoxedSandbox, RegistryError, ToolCall, ToolContext, ToolDefinition, ToolDyn,
    ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::Value;

use crate::ToolRegistry;
use crate::middleware::Nested;
use crate::registry::Registered;

/// Returns the tools of a registry with a prefix before their names. Their calls still pass through the middleware and
/// the sandbox of that registry.
pub(crate) fn tools(prefix: &str, registry: ToolRegistry) -> Vec<Registered> {
    // Without a prefix, middleware or a sandbox, a wrapper around the tools would change nothing.
    if prefix.is_empty() && !registry.names().any(|name| registry.wraps(name)) {
        return registry.into_tools().collect();
    }
    let registry = Arc::new(registry);
    let rename = |registered: &Registered| {
        let original = &registered.definition;
        Registered::merged(Merged {
            name: format!("{prefix}{}", original.name),
            original: original.clone(),
            registry: registry.clone(),
        })
    };
    registry.tools().map(rename).collect()
}

/// A tool from another registry. Calls go through that registry, under the tool's original name.
///
/// Middleware of that registry may identify a tool by its name, and therefore needs the original name.
pub(crate) struct Merged {
    /// Name of the tool in this registry, which is the prefix followed by the original name.
    name: String,
    /// The definition in the other registry, with the original name.
    original: Arc<ToolDefinition>,
    /// The registry from which the tool comes, and through which it is called.
    registry: Arc<ToolRegistry>,
}

impl Merged {
    /// Checks that the tool can run in the sandbox of its original registry. If that registry has no sandbox, checks
    /// `sandbox` instead.
    pub(crate) fn check_in(&self, sandbox: Option<&BoxedSandbox>) -> Result<(), RegistryError> {
        self.registry.check_tool_in(&self.original.name, sandbox)
    }

    /// Runs a call through the original registry, in the sandbox of that registry. If that registry has no sandbox,
    /// uses `sandbox` instead.
    pub(crate) async fn call(
        &self,
        input: Value,
        ctx: &ToolContext,
        sandbox: Option<&BoxedSandbox>,
        nested: Option<Nested<'_>>,
    ) -> Result<ToolOutput, ToolError> {
        let name = self.original.name.clone();
        let call = ToolCall { id: ctx.call_id.clone(), name, input };
        // The original registry's own sandbox takes precedence.
        let sandbox = self.registry.sandbox().or(sandbox);
        self.registry.execute_call_in(&call, ctx, sandbox, nested).await
    }
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
        Box::pin(self.call(input, ctx, None, None))
    }

    fn agent(&self) -> Option<&dyn AgentTool> {
        self.registry.tool(&self.original.name)?.agent()
    }

    fn effect(&self) -> ToolEffect {
        let tool = self.registry.get(&self.original.name);
        tool.map_or(ToolEffect::default(), |tool| tool.effect())
    }

    fn effect_key(&self, input: &Value) -> Option<String> {
        self.registry.get(&self.original.name)?.effect_key(input)
    }

    fn runs_program(&self) -> bool {
        self.registry.get(&self.original.name).is_some_and(|tool| tool.runs_program())
    }

    fn is_foreign(&self) -> bool {
        self.registry.get(&self.original.name).is_some_and(|tool| tool.is_foreign())
    }

    fn runs_alone(&self) -> bool {
        self.registry.get(&self.original.name).is_some_and(|tool| tool.runs_alone())
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        self.registry.get(&self.original.name).map_or(Ok(()), |tool| tool.check_input(input))
    }
}
