//! [`TimeoutMiddleware`], which limits the duration of calls.

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::time::Duration;

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture, clock};

use super::timer;
use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Limits the duration of calls.
///
/// After the timeout, the future of the call is dropped. The call fails with [`ToolError::ExecutionFailed`], whose
/// source is an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut). The error text names the tool and the
/// timeout.
///
/// Each call receives its own cancellation token, which is cancelled after the timeout. A tool can use the token to
/// stop work in other tasks.
///
/// The timeout includes the time that inner middleware uses. A [timeout for one tool](Self::with_tool_timeout) applies
/// to each [`ToolCall`] with the name of the tool.
///
/// An agent has a timeout for all tool calls too. It is set by `AgentBuilder::tool_timeout` or
/// [`LoopConfig::tool_timeout`](neuron_types::LoopConfig::tool_timeout), and is ten minutes with `Agent::builder`. In a
/// durable run, the timeout in [`LoopConfig::tool_activity`](neuron_types::LoopConfig::tool_activity) takes its place.
/// If a call has both timeouts, the shorter timeout applies. To allow a tool more time than the agent allows, raise the
/// timeout of the agent.
///
/// Except on wasm32, the middleware needs a tokio runtime with an enabled timer. Without a runtime, calls fail and do
/// not start.
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
    /// Timeout of tools without an entry in `by_tool`.
    default: Duration,
    /// Timeouts by tool name.
    by_tool: HashMap<String, Duration>,
}

impl TimeoutMiddleware {
    /// Creates middleware with a default timeout for all tools.
    #[must_use]
    pub fn new(default: Duration) -> Self {
        Self { default, by_tool: HashMap::new() }
    }

    /// Sets the timeout of one tool.
    #[must_use]
    pub fn with_tool_timeout(mut self, tool: impl Into<String>, limit: Duration) -> Self {
        self.by_tool.insert(tool.into(), limit);
        self
    }

    /// Returns the timeout of a tool.
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
            if !timer::is_running() {
                return Err(failed(io::Error::other("time limits need a tokio runtime")));
            }
            let limit = self.limit(&call.name);
            // A child token is also cancelled with the run, but does not cancel the run.
            let token = ctx.cancellation_token.child_token();
            // Dropping the guard cancels the token. The guard is also dropped if the future of the call is dropped.
            let guard = token.clone().drop_guard();
            let ctx = ToolContext { cancellation_token: token, ..ctx.clone() };
            let mut work = pin!(next.run(call, &ctx));
            match clock::within(limit, work.as_mut()).await {
                Some(result) => {
                    // The call returned in time. Do not cancel work in other tasks that outlives the call.
                    guard.disarm();
                    result
                }
                None => {
                    drop(guard);
                    let text = format!("`{}` exceeded its time limit of {limit:?}", call.name);
                    Err(failed(io::Error::new(io::ErrorKind::TimedOut, text)))
                }
            }
        })
    }
}

/// Creates the error of a failed call from an I/O error.
fn failed(error: io::Error) -> ToolError {
    ToolError::ExecutionFailed(Box::new(error))
}
