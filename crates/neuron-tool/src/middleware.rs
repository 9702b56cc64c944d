//! Middleware around tool calls, similar to axum's `from_fn`.
//!
//! Middleware receives the call, the context and a [`Next`], which runs the inner middleware and then the tool.
//! Middleware may
//!
//! - observe a call. It runs `next` and returns the result.
//! - reject a call. It returns an error without running `next`. [`ToolError::ModelRetry`] is a hint for the model,
//!   which may call again. For any other error, the [`ToolErrorPolicy`](neuron_types::ToolErrorPolicy) of the run
//!   decides. With `Agent::builder`, the model receives the error. With `LoopConfig::default()`, the run ends.
//! - respond to a call. It returns an output without running `next`, for example from a cache.
//! - modify a call. It runs `next` with a changed call or context, or changes the output.
//!
//! Use [`tool_middleware_fn`] for a closure. For configurable middleware, implement [`ToolMiddleware`] for a struct.
//! See [`builtin`](crate::builtin) for existing middleware.
//!
//! # Replay
//!
//! In a durable run, an [agent](neuron_types::AgentTool) that is used as a tool runs again on each replay. The
//! middleware around the agent then runs again too, and must not have effects that cannot be repeated. For example, a
//! rate limit counts the call again, and a timeout starts again. Around any other tool, middleware runs once, together
//! with the tool.
//!
//! # Order
//!
//! The middleware that is added first is outermost. It receives the call first and the result last. Global middleware
//! is always outside of the middleware of a tool or a group.
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
/// - Call [`Next::run`] to run the tool, with the same or a changed call and context. Without this call, the middleware
///   responds in place of the tool.
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
    /// Processes a call and returns its result.
    ///
    /// # Errors
    ///
    /// Errors of the middleware itself, and the errors of [`Next::run`].
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the call is cancelled. Do cleanup in a `Drop` implementation.
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>;
}

/// The remaining steps of a tool call after the current middleware. These are the inner middleware and then the tool.
///
/// [`run`](Self::run) runs these steps. `run` consumes the `Next`, so middleware cannot run the tool twice.
pub struct Next<'a> {
    /// The global middleware that has not run yet, outermost first.
    global: &'a [Arc<dyn ToolMiddleware>],
    /// The tool's own middleware that has not run yet, outermost first. It runs after the global middleware.
    own: &'a [Arc<dyn ToolMiddleware>],
    /// The sandbox in which the tool runs. `None` runs the tool in this process.
    sandbox: Option<&'a BoxedSandbox>,
    /// The called tool.
    target: &'a Registered,
    /// The durable context that journals the steps of an agent. `None` for a call without durability.
    nested: Option<Nested<'a>>,
}

/// A durable context that journals the steps of an agent.
#[derive(Clone)]
pub(crate) struct Nested<'a> {
    /// Name of the agent's tool in the caller's registry. It differs from the original name after a merge with a
    /// prefix.
    pub(crate) name: &'a str,
    /// The durable context that journals the steps of the agent.
    pub(crate) durability: Durability<'a>,
}

impl<'a> Next<'a> {
    /// Creates a value that runs all middleware of a call and then the tool, without a durable context.
    pub(crate) fn new(
        global: &'a [Arc<dyn ToolMiddleware>],
        own: &'a [Arc<dyn ToolMiddleware>],
        sandbox: Option<&'a BoxedSandbox>,
        target: &'a Registered,
    ) -> Self {
        Self { global, own, sandbox, target, nested: None }
    }

    /// Replaces the durable context, which is used only if the tool is an agent. `None` means a call without
    /// durability.
    pub(crate) fn nested(self, nested: Option<Nested<'a>>) -> Self {
        Self { nested, ..self }
    }

    /// Returns the definition of the called tool.
    #[must_use]
    pub fn definition(&self) -> &'a ToolDefinition {
        self.shared_definition()
    }

    /// Returns the definition of the called tool as a shared pointer. Its address distinguishes tools with the same
    /// name.
    pub(crate) fn shared_definition(&self) -> &'a Arc<ToolDefinition> {
        &self.target.definition
    }

    /// Returns `true` if the called tool is the registry's search for deferred tools. Its results must stay whole,
    /// because a model can only call a tool whose complete definition is in a result.
    pub(crate) fn is_search(&self) -> bool {
        self.target.is_own
    }

    /// Returns the effect that the tool declares. The effect tells if the same call may run more than once.
    #[must_use]
    pub fn effect(&self) -> ToolEffect {
        self.target.tool.effect()
    }

    /// Runs the inner middleware and the tool. The call and the context may be changed copies.
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
        // A panic of the tool is caught here, so that the middleware receives an error result. Panics of middleware are
        // caught around the whole chain.
        Box::pin(panic::catch(&call.name, move || self.call_tool(&call.input, ctx)))
    }

    /// Runs the tool itself, without middleware.
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

    /// Returns `true` if no middleware is left around the tool.
    fn has_no_middleware(&self) -> bool {
        self.global.is_empty() && self.own.is_empty()
    }

    /// Runs all middleware and then the tool for a borrowed call. The call is cloned only if there is middleware. A
    /// panic becomes an error result for the model.
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

    /// Runs all middleware and then the tool. A panic becomes an error result for the model.
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
/// Write the closure directly as the argument of this function, with the body `Box::pin(async move { … })`. In any
/// other place, the compiler cannot infer the lifetimes of the closure.
///
/// All calls share the captured values. Clone a captured value for each call, for example with `let state =
/// state.clone();` before the `Box::pin`. If there are many captured values, implement [`ToolMiddleware`] for a struct
/// instead.
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

/// Forwards calls to the middleware inside the `Arc`. Use an `Arc` to read the middleware's state later, or to add the
/// middleware to several registries.
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

/// The middleware of [`tool_middleware_fn`].
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
