//! [`RateLimit`]: so many calls in a period.

use std::collections::VecDeque;
use std::time::Duration;

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Lets so many calls start in any period of a length; the others wait for their turn, in order.
///
/// The limit is for all calls that go through this middleware, of whatever agent. A call that is
/// cancelled or dropped while it waits counts for nothing and does not start. It needs a tokio
/// runtime with its timer enabled; without a runtime calls fail and do not start.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::RateLimit;
///
/// let mut registry = ToolRegistry::new();
/// // The search engine takes ten requests in a second.
/// registry.add_tool_middleware("search", RateLimit::new(10, Duration::from_secs(1)));
/// ```
#[derive(Debug)]
pub struct RateLimit {
    max_calls: usize,
    period: Duration,
    /// When the last calls started, the oldest first. Locked by whoever is next, while it waits.
    starts: Mutex<VecDeque<Instant>>,
}

impl RateLimit {
    /// Lets so many calls start in any period of this length, and one if that is zero.
    #[must_use]
    pub fn new(max_calls: usize, period: Duration) -> Self {
        Self { max_calls: max_calls.max(1), period, starts: Mutex::default() }
    }

    async fn turn(&self) {
        let mut starts = self.starts.lock().await;
        if starts.len() >= self.max_calls {
            if let Some(oldest) = starts.front() {
                tokio::time::sleep(self.period.saturating_sub(oldest.elapsed())).await;
            }
            starts.pop_front();
        }
        starts.push_back(Instant::now());
    }
}

impl ToolMiddleware for RateLimit {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            if Handle::try_current().is_err() {
                return Err(ToolError::ExecutionFailed("rates need a tokio runtime".into()));
            }
            let token = &ctx.cancellation_token;
            match token.run_until_cancelled(self.turn()).await {
                Some(()) if !token.is_cancelled() => next.run(call, ctx).await,
                _ => Err(ToolError::Cancelled),
            }
        })
    }
}
