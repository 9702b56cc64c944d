//! Running tool calls through the middleware.

use std::future::Future;
use std::sync::Arc;

use neuron_types::{
    BoxedSandbox, Durability, ToolCall, ToolContext, ToolDyn, ToolError, ToolFuture, ToolOutput,
    ToolSet, ToolUseRef, WasmCompatSend,
};
use serde_json::Value;

use super::ToolRegistry;
use crate::middleware::{Nested, Next};

impl ToolRegistry {
    /// Calls a tool by its name, through the middleware. The id of the call is the context's
    /// [`call_id`](ToolContext::call_id).
    ///
    /// A panic of the tool is logged and becomes an output with [`is_error`](ToolOutput::is_error). Texts that exceed the
    /// [maximum](Self::set_max_output_characters) are truncated.
    ///
    /// # Errors
    ///
    /// - [`ToolError::NotFound`] if no tool has this name.
    /// - [`ToolError::InvalidInput`] if the tool cannot deserialise its arguments from `input`.
    /// - The errors of the middleware and the tool.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the running tool.
    pub fn execute<'a>(
        &'a self,
        name: &str,
        input: Value,
        ctx: &'a ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + WasmCompatSend + use<'a> {
        // Create the call outside of the future, which must not borrow `name`.
        let call = ToolCall { id: ctx.call_id.clone(), name: name.to_owned(), input };
        async move { self.execute_call(&call, ctx).await }
    }

    /// Runs a tool call through the middleware.
    ///
    /// # Errors
    ///
    /// The errors of [`execute`](Self::execute).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the running tool.
    pub fn execute_call(
        &self,
        call: &ToolCall,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + WasmCompatSend {
        self.execute_limited(call, ctx, None)
    }

    /// Runs a borrowed tool call through the middleware. The call is cloned only if there is middleware.
    ///
    /// # Errors
    ///
    /// The errors of [`execute`](Self::execute).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the running tool.
    pub async fn execute_ref(
        &self,
        call: ToolUseRef<'_>,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let result = self.chain(call.name, self.sandbox.as_ref())?.run_ref(call, ctx).await;
        self.limited(call.name, result)
    }

    /// Runs a tool call through the middleware, in the sandbox of this registry, and truncates its result.
    async fn execute_limited(
        &self,
        call: &ToolCall,
        ctx: &ToolContext,
        nested: Option<Nested<'_>>,
    ) -> Result<ToolOutput, ToolError> {
        let result = self.execute_call_in(call, ctx, self.sandbox.as_ref(), nested).await;
        self.limited(&call.name, result)
    }

    /// Runs a tool call through the middleware, in the given sandbox. If the tool is an agent, it runs with the durable
    /// context in `nested`. Any other tool ignores `nested`.
    pub(crate) async fn execute_call_in(
        &self,
        call: &ToolCall,
        ctx: &ToolContext,
        sandbox: Option<&BoxedSandbox>,
        nested: Option<Nested<'_>>,
    ) -> Result<ToolOutput, ToolError> {
        self.chain(&call.name, sandbox)?.nested(nested).run_caught(call, ctx).await
    }

    /// Returns a [`Next`] that runs the middleware around a tool and then the tool. Returns [`ToolError::NotFound`] if
    /// no tool has the given name.
    fn chain<'a>(
        &'a self,
        name: &str,
        sandbox: Option<&'a BoxedSandbox>,
    ) -> Result<Next<'a>, ToolError> {
        let registered = self.tools.get(name).ok_or_else(|| ToolError::NotFound(name.into()))?;
        let own = self.by_tool.get(name).map_or(&[][..], Vec::as_slice);
        Ok(Next::new(&self.global, own, sandbox, registered))
    }
}

/// Allows durable contexts, which know only [`ToolSet`], to run the tools.
impl ToolSet for ToolRegistry {
    fn get(&self, name: &str) -> Option<Arc<dyn ToolDyn>> {
        Self::get(self, name)
    }

    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        durability: Option<Durability<'a>>,
    ) -> ToolFuture<'a> {
        let nested = durability.map(|durability| Nested { name: &call.name, durability });
        Box::pin(self.execute_limited(call, ctx, nested))
    }
}
