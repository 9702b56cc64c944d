//! [`ConcurrencyLimit`]: so many calls at the same time.

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};
use tokio::sync::Semaphore;

use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Lets so many calls run at the same time; the others wait for their turn, in order.
///
/// The limit is for all calls that go through this middleware, of whatever agent: add it globally,
/// for one tool, or for a [group](crate::ToolRegistry::add_group_middleware). A call that is
/// cancelled while it waits ends with [`ToolError::Cancelled`] and does not start.
///
/// A tool that calls tools of the same limit, an agent for instance, must not be behind it: it would
/// wait for itself.
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
    permits: Semaphore,
}

impl ConcurrencyLimit {
    /// Lets so many calls run at the same time, and one if that is zero.
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
                Some(Ok(_permit)) if !token.is_cancelled() => next.run(call, ctx).await,
                _ => Err(ToolError::Cancelled),
            }
        })
    }
}
