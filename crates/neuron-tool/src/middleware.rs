//! Middleware: code around every tool call, in the manner of axum's `from_fn`.
//!
//! Middleware gets the call, the context and [`Next`], which stands for all that is further inside: more
//! middleware, then the tool. It may
//!
//! - look: run `next` and return what comes back;
//! - refuse: return an error without running `next`. [`ToolError::ModelRetry`] is a hint for the
//!   model, which may call again; every other error ends the run of an agent;
//! - answer: return an output of its own without running `next`, from a cache for instance;
//! - change: run `next` with a call or a context of its own, or return another output.
//!
//! For one that needs no type, there is [`tool_middleware_fn`]; one that others configure is a struct
//! that implements [`ToolMiddleware`]. What is there already is in [`builtin`](crate::builtin).
//!
//! # Replay
//!
//! In a durable run, the middleware around an [agent](neuron_types::AgentTool) runs again each time that the run is
//! replayed, because the agent does. It must have no effects there that cannot be repeated: a slot of a rate is spent and a
//! time limit begins anew. Around any other tool it runs with the tool, once.
//!
//! # Order
//!
//! What is added first is outermost: it sees the call first and the result last. Global middleware
//! is outside that of one tool or a group.
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

/// Wraps tool calls: checks, changes, times, caches or refuses them.
///
/// # Contract
///
/// - Call [`Next::run`] to go on, with this call and context or changed ones; return without it to
///   answer in the tool's place.
/// - The future may be dropped at any await.
///
/// For a closure, see [`tool_middleware_fn`].
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
    /// Its own, or what the rest of the chain returns.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the call is cancelled. What must be undone then belongs into a
    /// `Drop`.
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>;
}

/// The rest of the chain: further middleware, then the tool. Running it consumes it, so that a
/// call cannot run twice.
pub struct Next<'a> {
    global: &'a [Arc<dyn ToolMiddleware>],
    own: &'a [Arc<dyn ToolMiddleware>],
    sandbox: Option<&'a BoxedSandbox>,
    target: &'a Registered,
    /// What journals the steps of an agent.
    nested: Option<Nested<'a>>,
}

/// A durable context for the steps of an agent, and the name by which the context's caller knows the agent.
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

    /// The same chain, in which an agent runs with a durable context.
    pub(crate) fn nested(self, nested: Option<Nested<'a>>) -> Self {
        Self { nested, ..self }
    }

    /// Returns the definition of the tool that is called.
    #[must_use]
    pub fn definition(&self) -> &'a ToolDefinition {
        self.shared_definition()
    }

    /// The definition by its address, which tells tools of one name apart.
    pub(crate) fn shared_definition(&self) -> &'a Arc<ToolDefinition> {
        &self.target.definition
    }

    /// Returns what running the tool twice would do, as the tool declares it.
    #[must_use]
    pub fn effect(&self) -> ToolEffect {
        self.target.tool.effect()
    }

    /// Runs the rest of the chain. The call and the context may be the middleware's own.
    ///
    /// # Errors
    ///
    /// What the middleware further inside or the tool returns.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the tool's.
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
        // Caught here and around the whole chain: middleware sees how the call ended.
        Box::pin(panic::caught(&call.name, move || self.call_tool(&call.input, ctx)))
    }

    /// The innermost step.
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

    fn is_bare(&self) -> bool {
        self.global.is_empty() && self.own.is_empty()
    }

    /// Runs the whole chain like [`run_caught`](Self::run_caught). The call is cloned only for middleware.
    pub(crate) async fn run_ref(
        self,
        call: ToolUseRef<'_>,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        match self.is_bare() {
            true => panic::caught(call.name, || self.call_tool(call.input, ctx)).await,
            false => Box::pin(self.run_caught(&call.to_call(), ctx)).await,
        }
    }

    /// Runs the whole chain. A panic in it is an error for the model.
    pub(crate) async fn run_caught(
        self,
        call: &ToolCall,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let start = || match self.is_bare() {
            true => self.call_tool(&call.input, ctx),
            false => self.run(call, ctx),
        };
        panic::caught(&call.name, start).await
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

/// Makes middleware of a closure.
///
/// Write the closure inline and its body as `Box::pin(async move { … })`: its lifetimes are
/// inferred from this function's bound. What it takes from its surroundings it keeps for all calls,
/// so each call needs a clone: `let state = state.clone();` before the `Box::pin`. With much of that,
/// a struct that implements [`ToolMiddleware`] reads better.
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

/// Shared middleware: keep one pointer to look at it later, or to put it around tools of several
/// registries.
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
