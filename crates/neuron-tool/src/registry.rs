//! The registry: which tools there are, and how a call reaches one.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use indexmap::IndexMap;
use neuron_types::{
    Tool, ToolCall, ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmCompatSend,
};
use serde_json::Value;

use crate::middleware::{Next, ToolMiddleware};

/// The tools that a model can call, in the order in which they were registered.
///
/// The order is kept everywhere: prompt caches and replay depend on it. Clones share the tools and
/// the middleware.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: IndexMap<String, Registered>,
    /// Around every call, outermost first.
    global: Vec<Arc<dyn ToolMiddleware>>,
    /// Around the calls of one tool, inside the global ones, outermost first.
    by_tool: HashMap<String, Vec<Arc<dyn ToolMiddleware>>>,
}

/// A tool, and what the model is told of it.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) tool: Arc<dyn ToolDyn>,
    /// Read once: a schema is costly to make, and must not change between two requests. Shared, so
    /// that middleware can tell two definitions apart by their address.
    pub(crate) definition: Arc<ToolDefinition>,
}

impl ToolRegistry {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool. One with the same name is replaced in its place, and a warning is logged.
    pub fn register<T: Tool + 'static>(&mut self, tool: T) {
        self.register_dyn(Arc::new(tool));
    }

    /// Adds a tool behind a pointer, one from an MCP server for instance. One with the same name
    /// is replaced in its place, and a warning is logged.
    pub fn register_dyn(&mut self, tool: Arc<dyn ToolDyn>) {
        let name = tool.name().to_owned();
        let mut definition = tool.definition();
        if definition.name != name {
            tracing::warn!(
                tool = name,
                defined_as = definition.name,
                "a tool's definition has another name than the tool; the tool's name is used"
            );
            definition.name.clone_from(&name);
        }
        let registered = Registered { tool, definition: Arc::new(definition) };
        if self.tools.insert(name.clone(), registered).is_some() {
            tracing::warn!(
                tool = name,
                "a tool with this name was registered before; it is replaced"
            );
        }
    }

    /// Returns a tool.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn ToolDyn>> {
        self.tools.get(name).map(|registered| registered.tool.clone())
    }

    /// Returns a tool's definition.
    #[must_use]
    pub fn definition(&self, name: &str) -> Option<&ToolDefinition> {
        self.tools.get(name).map(|registered| &*registered.definition)
    }

    /// Returns all definitions, in registration order.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.values().map(|registered| (*registered.definition).clone()).collect()
    }

    /// All definitions by their address, which tells a replaced tool from the one before.
    #[cfg(feature = "validation")]
    pub(crate) fn shared_definitions(&self) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        self.tools.values().map(|registered| &registered.definition)
    }

    /// Iterates over the names of the tools, in registration order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Returns how many tools there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Adds middleware around every call, inside what was added before.
    pub fn add_middleware(&mut self, middleware: impl ToolMiddleware + 'static) -> &mut Self {
        self.global.push(Arc::new(middleware));
        self
    }

    /// Adds middleware around the calls of one tool, inside the global middleware and what was
    /// added before. The tool may be registered later.
    pub fn add_tool_middleware(
        &mut self,
        tool: &str,
        middleware: impl ToolMiddleware + 'static,
    ) -> &mut Self {
        self.by_tool.entry(tool.to_owned()).or_default().push(Arc::new(middleware));
        self
    }

    /// Runs a tool by its name, through the middleware. The call's id is the context's
    /// [`call_id`](ToolContext::call_id).
    ///
    /// # Errors
    ///
    /// [`ToolError::NotFound`] when there is no such tool, [`ToolError::InvalidInput`] when the
    /// input does not fit its arguments; else what the middleware or the tool returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the tool's.
    pub fn execute<'a>(
        &'a self,
        name: &str,
        input: Value,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + WasmCompatSend + use<'a> {
        let call = ToolCall { id: ctx.call_id.clone(), name: name.to_owned(), input };
        async move { self.execute_call(&call, ctx).await }
    }

    /// Runs a tool call, through the middleware.
    ///
    /// # Errors
    ///
    /// As [`execute`](Self::execute).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the tool's.
    pub fn execute_call(
        &self,
        call: &ToolCall,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + WasmCompatSend {
        async move {
            let Some(registered) = self.tools.get(&call.name) else {
                return Err(ToolError::NotFound(call.name.clone()));
            };
            let own = self.by_tool.get(&call.name).map_or(&[][..], Vec::as_slice);
            Next::new(&self.global, own, registered).run(call, ctx).await
        }
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRegistry")
            .field("tools", &self.tools.keys().collect::<Vec<_>>())
            .field("middleware", &self.global.len())
            .finish_non_exhaustive()
    }
}
