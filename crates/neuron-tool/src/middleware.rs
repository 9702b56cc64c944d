//! Middleware around tool calls, similar to axum's `from_fn`.
//!
//! Middleware receives the call, the context and [`Next`], which is the rest of the chain: further middleware, then the
//! tool. It may
//!
//! - observe. Run `next` and return its result.
//! - reject. Return an error without running `next`. [`ToolError::ModelRetry`] is a hint for the model, which may call
//!   again. Any other error ends the agent's run.
//! - respond. Return an output of its own without running `next`, for example from a cache.
//! - modify. Run `next` with a changed call or context, or return a changed output.
//!
//! Use [`tool_middleware_fn`] for a closure. For configurable middleware, implement [`ToolMiddleware`] for a struct.
//! See [`builtin`](crate::builtin) for existing middleware.
//!
//! # Replay
//!
//! In a durable run, the middleware around an [agent](neuron_types::AgentTool) runs again on each replay, because the
//! agent does. It must not have effects there that cannot be repeated. A rate limit, for example, uses another slot,
//! and a timeout starts again. Around any other tool, middleware runs once together with the tool.
//!
//! # Order
//!
//! The middleware that is added first is outermost. It receives the call first and the result last. Global middleware
//! is outside of the middleware of one tool or a group.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use neuron_tool::{ToolRegistry, neuron_tool, tool_middleware_fn};
//! use neuron_types::{ToolContext, ToolError};
//!
//! /// Waits for nothing
//! #[neuron_tool]
//! async fn wait() -> Result<(), ToolError> {
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ToolError> {
//! let seen = Arc::new(Mutex::new(Vec::new()));
//! let note = |name: &'static str| {
//!     let seen = seen.clone();
//!     tool_middleware_fn(move |call, ctx, next| {
//!         let seen = seen.clone();
//!         Box::pin(async move {
//!             seen.lock().unwrap().push(format!("{name} in"));
//!             let result = next.run(call, ctx).await;
//!             seen.lock().unwrap().push(format!("{name} out"));
//!             result
//!         })
//!     })
//! };
//!
//! let mut registry = ToolRegistry::new();
//! registry.register(WaitTool);
//! registry.add_tool_middleware("wait", note("own"));
//! registry.add_middleware(note("global"));
//!
//! registry.execute("wait", serde_json::json!({}), &ToolContext::default()).await?;
//! assert_eq!(*seen.lock().unwrap(), ["global in", "own in", "own out", "global out"]);
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::sync::Arc;

use neuron_types::{
    BoxedSandbox, Durability, ToolContext, ToolDefinition, ToolEffect, ToolError, ToolOutput,
    ToolUseRef, WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

pub use neuron_types::ToolCall;
use serde_json::Value;

use crate::panic;
use crate::registry::Registered;

/// Wraps tool calls, for example to check, modify, time, cache or reject them.
///
/// # Contract
///
/// - Call [`Next::run`] to continue, with the same or a changed call and context. Return without it to respond in place
///   of the tool.
/// - The future may be dropped at any await.
///
/// For closures, see [`tool_middleware_fn`].
///
/// # Example
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use neuron_tool::middleware::{Next, ToolCall, ToolMiddleware};
/// use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};
///
/// #[derive(Default)]
/// struct Count(AtomicUsize);
///
/// impl ToolMiddleware for Count {
///     fn process<'a>(
///         &'a self,
///         call: &'a ToolCall,
///         ctx: &'a ToolContext,
///         next: Next<'a>,
///     ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
///         Box::pin(async move {
///             self.0.fetch_add(1, Ordering::Relaxed);
///             next.run(call, ctx).await
///         })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not tool middleware",
    note = "implement `ToolMiddleware`, or wrap a closure in `tool_middleware_fn`"
)]
pub trait ToolMiddleware: WasmCompatSend + WasmCompatSync {
    /// Processes a call.
    ///
    /// # Errors
    ///
    /// Errors of the middleware, or of the rest of the chain.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the call is cancelled. Put cleanup into a `Drop`.
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>;
}

/// The rest of the chain, which is further middleware and then the tool. Running it consumes it, so a call cannot run
/// twice.
pub struct Next<'a> {
    global: &'a [Arc<dyn ToolMiddleware>],
    own: &'a [Arc<dyn ToolMiddleware>],
    sandbox: Option<&'a BoxedSandbox>,
    target: &'a Registered,
    /// The durable context that journals the steps of an agent.
    nested: Option<Nested<'a>>,
}

/// A durable context for the steps of an agent, and the name of the agent in the caller's registry.
#[derive(Clone)]
pub(crate) struct Nested<'a> {
    pub(crate) name: &'a str,
    pub(crate) durability: Durability<'a>,
}

impl<'a> Next<'a> {
    pub(crate) fn new(
        global: &'a [Arc<dyn ToolMiddleware>],
        own: &'a [Arc<dyn ToolMiddleware>],
        sandbox: Option<&'a BoxedSandbox>,
        target: &'a Registered,
    ) -> Self {
        Self { global, own, sandbox, target, nested: None }
    }

    /// Returns the chain with a durable context for an agent.
    pub(crate) fn nested(self, nested: Option<Nested<'a>>) -> Self {
        Self { nested, ..self }
    }

    /// Returns the definition of the called tool.
    #[must_use]
    pub fn definition(&self) -> &'a ToolDefinition {
        self.shared_definition()
    }

    /// Returns the definition as a shared pointer, whose address distinguishes tools with the same name.
    pub(crate) fn shared_definition(&self) -> &'a Arc<ToolDefinition> {
        &self.target.definition
    }

    /// Returns the declared effect of running the tool twice.
    #[must_use]
    pub fn effect(&self) -> ToolEffect {
        self.target.tool.effect()
    }

    /// Runs the rest of the chain. The call and the context may be changed copies.
    ///
    /// # Errors
    ///
    /// Errors of the inner middleware or of the tool.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the running tool.
    pub fn run<'b>(
        self,
        call: &'b ToolCall,
        ctx: &'b ToolContext,
    ) -> WasmBoxedFuture<'b, Result<ToolOutput, ToolError>>
    where
        'a: 'b,
    {
        if let [middleware, global @ ..] = self.global {
            return middleware.process(call, ctx, Next { global, ..self });
        }
        if let [middleware, own @ ..] = self.own {
            return middleware.process(call, ctx, Next { own, ..self });
        }
        // Panics are caught here and around the whole chain, so that middleware receives the result of a call that
        // panicked.
        Box::pin(panic::catch(&call.name, move || self.call_tool(&call.input, ctx)))
    }

    /// Runs the tool as the innermost step.
    fn call_tool<'b>(
        &self,
        input: &'b Value,
        ctx: &'b ToolContext,
    ) -> WasmBoxedFuture<'b, Result<ToolOutput, ToolError>>
    where
        'a: 'b,
    {
        match &self.nested {
            Some(nested) => self.target.call_nested(input, ctx, self.sandbox, nested.clone()),
            None => self.target.call(input, ctx, self.sandbox),
        }
    }

    fn has_no_middleware(&self) -> bool {
        self.global.is_empty() && self.own.is_empty()
    }

    /// Runs the whole chain, like [`run_caught`](Self::run_caught). The call is cloned only if there is middleware.
    pub(crate) async fn run_ref(
        self,
        call: ToolUseRef<'_>,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        match self.has_no_middleware() {
            true => panic::catch(call.name, || self.call_tool(call.input, ctx)).await,
            false => Box::pin(self.run_caught(&call.to_call(), ctx)).await,
        }
    }

    /// Runs the whole chain. A panic becomes an error result for the model.
    pub(crate) async fn run_caught(
        self,
        call: &ToolCall,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let start = || match self.has_no_middleware() {
            true => self.call_tool(&call.input, ctx),
            false => self.run(call, ctx),
        };
        panic::catch(&call.name, start).await
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next")
            .field("middleware", &(self.global.len() + self.own.len()))
            .field("tool", &self.target.tool.name())
            .finish()
    }
}

/// Creates middleware from a closure.
///
/// Write the closure inline with the body `Box::pin(async move { … })`, because its lifetimes are inferred from the
/// bound of this function. Captured values are shared by all calls, so each call needs a clone, for example `let state
/// = state.clone();` before the `Box::pin`. If there are many captured values, implement [`ToolMiddleware`] for a
/// struct instead.
///
/// # Example: refuse plain HTTP
///
/// ```
/// use neuron_tool::{ToolRegistry, tool_middleware_fn};
/// use neuron_types::ToolError;
///
/// let mut registry = ToolRegistry::new();
/// registry.add_tool_middleware("fetch_page", tool_middleware_fn(|call, ctx, next| {
///     Box::pin(async move {
///         match call.input.get("url").and_then(|url| url.as_str()) {
///             Some(url) if !url.starts_with("https://") => {
///                 Err(ToolError::ModelRetry(format!("url must start with https://, got '{url}'")))
///             }
///             _ => next.run(call, ctx).await,
///         }
///     })
/// }));
/// ```
pub fn tool_middleware_fn<F>(f: F) -> impl ToolMiddleware
where
    F: for<'a> Fn(
            &'a ToolCall,
            &'a ToolContext,
            Next<'a>,
        ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>
        + WasmCompatSend
        + WasmCompatSync
        + 'static,
{
    FnMiddleware(f)
}

/// Shared middleware, to access its state later or to add it to several registries.
impl<M: ToolMiddleware + ?Sized> ToolMiddleware for Arc<M> {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        (**self).process(call, ctx, next)
    }
}

struct FnMiddleware<F>(F);

impl<F> ToolMiddleware for FnMiddleware<F>
where
    F: for<'a> Fn(
            &'a ToolCall,
            &'a ToolContext,
            Next<'a>,
        ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>
        + WasmCompatSend
        + WasmCompatSync,
{
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        (self.0)(call, ctx, next)
    }
}
