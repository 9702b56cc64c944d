//! [`TimeoutMiddleware`]: ends calls that take too long.

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::time::Duration;

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};
use tokio::runtime::Handle;

use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Ends calls that take too long.
///
/// The call gets a cancellation token of its own. At the limit the token is cancelled, which reaches
/// whatever the tool started elsewhere, and the call's future is dropped. The call fails with
/// [`ToolError::ExecutionFailed`]; its source is an [`io::Error`] of the kind
/// [`TimedOut`](io::ErrorKind::TimedOut), whose text names the tool and the limit.
///
/// The limit is that of the name in the [`ToolCall`], and covers the middleware inside this one. It
/// needs a tokio runtime with its timer enabled; without a runtime calls fail and do not start.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::TimeoutMiddleware;
///
/// let timeout = TimeoutMiddleware::new(Duration::from_secs(30))
///     .with_tool_timeout("run_tests", Duration::from_secs(600));
///
/// let mut registry = ToolRegistry::new();
/// registry.add_middleware(timeout);
/// ```
#[derive(Debug, Clone)]
pub struct TimeoutMiddleware {
    default: Duration,
    by_tool: HashMap<String, Duration>,
}

impl TimeoutMiddleware {
    /// Gives every tool this limit.
    #[must_use]
    pub fn new(default: Duration) -> Self {
        Self { default, by_tool: HashMap::new() }
    }

    /// Gives one tool a limit of its own.
    #[must_use]
    pub fn with_tool_timeout(mut self, tool: impl Into<String>, limit: Duration) -> Self {
        self.by_tool.insert(tool.into(), limit);
        self
    }

    fn limit(&self, tool: &str) -> Duration {
        self.by_tool.get(tool).copied().unwrap_or(self.default)
    }
}

impl ToolMiddleware for TimeoutMiddleware {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            if Handle::try_current().is_err() {
                return Err(failed(io::Error::other("time limits need a tokio runtime")));
            }
            let limit = self.limit(&call.name);
            let token = ctx.cancellation_token.child_token();
            // Cancelled too when the call is dropped halfway.
            let guard = token.clone().drop_guard();
            let ctx = ToolContext { cancellation_token: token, ..ctx.clone() };
            let mut work = pin!(next.run(call, &ctx));
            match tokio::time::timeout(limit, work.as_mut()).await {
                Ok(result) => {
                    guard.disarm();
                    result
                }
                Err(_) => {
                    drop(guard);
                    let text = format!("`{}` exceeded its time limit of {limit:?}", call.name);
                    Err(failed(io::Error::new(io::ErrorKind::TimedOut, text)))
                }
            }
        })
    }
}

fn failed(error: io::Error) -> ToolError {
    ToolError::ExecutionFailed(Box::new(error))
}
