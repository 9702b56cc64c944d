//! [`RateLimit`], which limits the number of calls per period.

use std::collections::VecDeque;
use std::time::Duration;

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture, clock};
use tokio::sync::Mutex;

use super::timer::{self, Instant};
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Limits the number of calls that start within a period of time. Further calls wait in FIFO order.
///
/// The period is a sliding window. All calls through this middleware share the limit, even if several agents make them.
/// A call that is cancelled or dropped while it waits does not start and does not count.
///
/// Except on wasm32, the middleware needs a tokio runtime with an enabled timer. Without a runtime, calls fail with
/// [`ToolError::ExecutionFailed`].
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::RateLimit;
///
/// let mut registry = ToolRegistry::new();
/// // The search engine allows ten requests per second.
/// registry.add_tool_middleware("search", RateLimit::new(10, Duration::from_secs(1)));
/// ```
#[derive(Debug)]
pub struct RateLimit {
    /// Maximum number of calls that start within `period`.
    max_calls: usize,
    period: Duration,
    /// Start times of the last `max_calls` calls, oldest first. The next call in line holds the lock while it sleeps,
    /// and all later calls wait for the lock.
    starts: Mutex<VecDeque<Instant>>,
}

impl RateLimit {
    /// Creates a limit of `max_calls` calls per `period`. Zero calls mean one call.
    #[must_use]
    pub fn new(max_calls: usize, period: Duration) -> Self {
        Self { max_calls: max_calls.max(1), period, starts: Mutex::default() }
    }

    /// Waits until the limit allows a new call, and then records the start time of the new call.
    async fn acquire(&self) {
        let mut starts = self.starts.lock().await;
        if starts.len() >= self.max_calls {
            if let Some(oldest) = starts.front() {
                clock::sleep(self.period.saturating_sub(oldest.elapsed())).await;
            }
            starts.pop_front();
        }
        // Register the call after the wait, because a call that is dropped while it waits must not count.
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
            if !timer::is_running() {
                return Err(ToolError::ExecutionFailed("rates need a tokio runtime".into()));
            }
            let token = &ctx.cancellation_token;
            match token.run_until_cancelled(self.acquire()).await {
                // If a call is cancelled at the same time as its wait ends, the call must not start.
                Some(()) if !token.is_cancelled() => next.run(call, ctx).await,
                _ => Err(ToolError::Cancelled),
            }
        })
    }
}
