//! [`RetryLimit`], which limits the number of consecutive retries of each tool.

use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};

use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Limits the number of consecutive retries of each tool.
///
/// Up to the limit, a [`ToolError::ModelRetry`] is returned unchanged. The next `ModelRetry` becomes
/// [`ToolError::InvalidInput`]. A successful call of the tool resets the tool's counter, and so does this
/// `InvalidInput`.
///
/// The `InvalidInput` ends a run with [`ToolErrorPolicy::EndRun`], the default of
/// [`LoopConfig`](neuron_types::LoopConfig). With [`ToolErrorPolicy::ReturnToModel`], the default of `Agent::builder`,
/// the model receives it as an error result, and the run continues. There, the limit changes only the text of the
/// result. To end the run, set [`LoopConfig::tool_retry_limit`](neuron_types::LoopConfig::tool_retry_limit).
///
/// [`ToolErrorPolicy::EndRun`]: neuron_types::ToolErrorPolicy::EndRun
/// [`ToolErrorPolicy::ReturnToModel`]: neuron_types::ToolErrorPolicy::ReturnToModel
///
/// Several failed calls in one response count as one retry, because the model has not yet received the hint of the
/// first call. Calls with the same [`turn`](ToolContext::turn) belong to one response.
///
/// Each conversation has its own counters. A conversation is identified by [`session_id`](ToolContext::session_id), or
/// by [`run_id`](ToolContext::run_id) if there is no session.
///
/// # Example
///
/// ```
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::RetryLimit;
///
/// let mut registry = ToolRegistry::new();
/// registry.add_middleware(RetryLimit::new(3));
/// ```
#[derive(Debug)]
pub struct RetryLimit {
    max_retries: usize,
    /// The counters by conversation and tool, in the order of their last change, oldest first.
    counts: Mutex<IndexMap<Key, Count>>,
}

/// The counter of a tool in a conversation.
#[derive(Debug)]
struct Count {
    /// Number of consecutive responses with an invalid call.
    times: usize,
    /// Id of the last response with an invalid call.
    last: ResponseId,
}

/// The id of a response, which consists of the run id and the number of the turn. `None` outside of a run.
type ResponseId = Option<(String, usize)>;

/// The key of a counter, which consists of the conversation's id and the tool's name.
type Key = (String, String);

/// Maximum number of counters. Without a maximum, the counters of abandoned conversations would stay in memory forever.
const MAX_COUNTS: usize = 10_000;

impl RetryLimit {
    /// Creates a limit of `max_retries` consecutive retries, which means `max_retries + 1` attempts.
    #[must_use]
    pub fn new(max_retries: usize) -> Self {
        Self { max_retries, counts: Mutex::default() }
    }

    /// Updates the counter of a tool with the result of a call, and returns the result. A [`ToolError::ModelRetry`]
    /// beyond the limit is returned as a [`ToolError::InvalidInput`].
    pub(super) fn settle(
        &self,
        call: &ToolCall,
        ctx: &ToolContext,
        result: Result<ToolOutput, ToolError>,
    ) -> Result<ToolOutput, ToolError> {
        match result {
            Err(ToolError::ModelRetry(hint)) => Err(self.retry(call, ctx, hint)),
            Ok(output) => {
                self.reset(call, ctx);
                Ok(output)
            }
            // Other errors neither count nor reset the counter.
            error => error,
        }
    }

    /// Counts an invalid call and returns its error.
    fn retry(&self, call: &ToolCall, ctx: &ToolContext, hint: String) -> ToolError {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, response) = (key(call, ctx), ctx.turn.map(|turn| (ctx.run_id.clone(), turn)));
        if self.max_retries == 0 {
            return ToolError::InvalidInput(hint);
        }
        if response.is_some() && counts.get(&key).is_some_and(|count| count.last == response) {
            return ToolError::ModelRetry(hint);
        }
        // Remove the counter and insert it again below, so that the map stays in the order of the last change.
        let times = counts.shift_remove(&key).map_or(0, |count| count.times);
        if times == self.max_retries {
            return ToolError::InvalidInput(format!(
                "`{}` was called wrongly {} times in a row; the last time: {hint}",
                call.name,
                times + 1
            ));
        }
        if counts.len() == MAX_COUNTS {
            // Evict the counter that has not changed for the longest time.
            counts.shift_remove_index(0);
        }
        counts.insert(key, Count { times: times + 1, last: response });
        ToolError::ModelRetry(hint)
    }

    /// Removes the counter of a tool after a successful call.
    fn reset(&self, call: &ToolCall, ctx: &ToolContext) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if !counts.is_empty() {
            counts.shift_remove(&key(call, ctx));
        }
    }
}

impl ToolMiddleware for RetryLimit {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { self.settle(call, ctx, next.run(call, ctx).await) })
    }
}

/// Returns the key of the counter for a call.
fn key(call: &ToolCall, ctx: &ToolContext) -> Key {
    // Without a session, each run is a conversation of its own.
    let conversation = match ctx.session_id.as_str() {
        "" => &ctx.run_id,
        session_id => session_id,
    };
    (conversation.to_owned(), call.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_abandoned_conversations_are_bounded() {
        let limit = RetryLimit::new(1);
        let call = ToolCall { id: String::new(), name: "t".into(), input: serde_json::Value::Null };
        let fail = |run: usize| {
            let ctx = ToolContext { run_id: run.to_string(), ..ToolContext::default() };
            limit.settle(&call, &ctx, Err(ToolError::ModelRetry("again".into())))
        };
        for run in 0..=MAX_COUNTS {
            assert!(matches!(fail(run), Err(ToolError::ModelRetry(_))));
        }
        assert_eq!(limit.counts.lock().unwrap().len(), MAX_COUNTS);
        assert!(matches!(fail(MAX_COUNTS), Err(ToolError::InvalidInput(_))));
        // The oldest counter was removed.
        assert!(matches!(fail(0), Err(ToolError::ModelRetry(_))));
    }
}
