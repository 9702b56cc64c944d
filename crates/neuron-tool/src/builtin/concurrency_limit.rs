//! [`ConcurrencyLimit`], which limits the number of concurrent calls.

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};
use tokio::sync::Semaphore;

use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Limits the number of concurrent calls. Further calls wait in FIFO order.
///
/// All calls through this middleware share the limit, even if several agents make them. Add the limit globally, for one
/// tool, or for a [group](crate::ToolRegistry::add_group_middleware) of tools. A call that is cancelled while it waits
/// returns [`ToolError::Cancelled`] and does not start.
///
/// Do not add the limit to a tool, such as an agent, that itself calls tools with the same limit. The outer call counts
/// while it waits for the inner call, so both may wait forever.
///
/// # Example
///
/// ```
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::ConcurrencyLimit;
///
/// let mut registry = ToolRegistry::new();
/// registry.add_group_middleware(["fetch_page", "search_web"], ConcurrencyLimit::new(4));
/// ```
#[derive(Debug)]
pub struct ConcurrencyLimit {
    /// The permits, one for each call that may run.
    permits: Semaphore,
}

impl ConcurrencyLimit {
    /// Creates a limit of `max_calls` concurrent calls. Zero means one.
    #[must_use]
    pub fn new(max_calls: usize) -> Self {
        Self { permits: Semaphore::new(max_calls.clamp(1, Semaphore::MAX_PERMITS)) }
    }
}

impl ToolMiddleware for ConcurrencyLimit {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let token = &ctx.cancellation_token;
            match token.run_until_cancelled(self.permits.acquire()).await {
                // If a call is cancelled at the same time as it gets its permit, the call must not start.
                Some(Ok(_permit)) if !token.is_cancelled() => next.run(call, ctx).await,
                _ => Err(ToolError::Cancelled),
            }
        })
    }
}
