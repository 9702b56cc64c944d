//! [`RetryLimit`], which ends the run after too many invalid calls in a row.

use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};

use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Limits the consecutive retries of each tool.
///
/// Up to the limit, [`ToolError::ModelRetry`] is returned unchanged. The next one becomes [`ToolError::InvalidInput`],
/// which ends the run. A successful call and the end of the run reset the counter. Several calls of one response,
/// identified by [`turn`](ToolContext::turn), count as one, because the model has not received the first hint yet.
///
/// Each conversation has its own counters. It is identified by [`session_id`](ToolContext::session_id), or without a
/// session by [`run_id`](ToolContext::run_id).
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
    /// Number of consecutive invalid calls by conversation and tool. The entry that has not changed for longest is
    /// first.
    counts: Mutex<IndexMap<Key, Count>>,
}

/// The number of consecutive invalid calls of a tool.
#[derive(Debug)]
struct Count {
    times: usize,
    last: ResponseId,
}

/// The run and the turn of a response. `None` outside of a run.
type ResponseId = Option<(String, usize)>;

/// The conversation and the tool.
type Key = (String, String);

/// Maximum number of counters, because conversations may be abandoned during a retry.
const MAX_COUNTS: usize = 10_000;

impl RetryLimit {
    /// Creates a limit. The number of attempts is one more than `max_retries`.
    #[must_use]
    pub fn new(max_retries: usize) -> Self {
        Self { max_retries, counts: Mutex::default() }
    }

    /// Updates the counter with the result of a call.
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

    fn retry(&self, call: &ToolCall, ctx: &ToolContext, hint: String) -> ToolError {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, response) = (key(call, ctx), ctx.turn.map(|turn| (ctx.run_id.clone(), turn)));
        if self.max_retries == 0 {
            return ToolError::InvalidInput(hint);
        }
        if response.is_some() && counts.get(&key).is_some_and(|count| count.last == response) {
            return ToolError::ModelRetry(hint);
        }
        // Removed and inserted again, so that the entries stay in the order of their last change.
        let times = counts.shift_remove(&key).map_or(0, |count| count.times);
        if times == self.max_retries {
            return ToolError::InvalidInput(format!(
                "`{}` was called wrongly {} times in a row; the last time: {hint}",
                call.name,
                times + 1
            ));
        }
        if counts.len() == MAX_COUNTS {
            counts.shift_remove_index(0);
        }
        counts.insert(key, Count { times: times + 1, last: response });
        ToolError::ModelRetry(hint)
    }

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

fn key(call: &ToolCall, ctx: &ToolContext) -> Key {
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
