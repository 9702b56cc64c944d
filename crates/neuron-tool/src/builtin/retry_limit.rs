//! [`RetryLimit`]: ends the run when the model keeps getting a tool's arguments wrong.

use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};

use crate::middleware::{Next, ToolCall, ToolMiddleware};

/// Lets the model try again so many times in a row, for each tool.
///
/// [`ToolError::ModelRetry`] is passed on so many times; the next one becomes
/// [`ToolError::InvalidInput`], which ends the run. A call that succeeds starts the count anew, and
/// so does the end of the run. Several calls of one answer, told by
/// [`turn`](ToolContext::turn), count as one: the model has not seen the first hint yet.
///
/// Each conversation is counted by itself: by [`session_id`](ToolContext::session_id), or without
/// one by [`run_id`](ToolContext::run_id).
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
    /// How often in a row a tool was called wrongly, by conversation; the longest unchanged first.
    counts: Mutex<IndexMap<Key, Count>>,
}

/// How often in a row a tool was called wrongly.
#[derive(Debug)]
struct Count {
    times: usize,
    last: Answer,
}

/// A run and its turn; `None` outside a run.
type Answer = Option<(String, usize)>;

/// A conversation and a tool.
type Key = (String, String);

/// Of conversations that were left in the middle of a retry, only so many are remembered.
const MOST_COUNTS: usize = 10_000;

impl RetryLimit {
    /// Allows so many retries in a row: one attempt more.
    #[must_use]
    pub fn new(max_retries: usize) -> Self {
        Self { max_retries, counts: Mutex::default() }
    }

    /// Counts what became of a call.
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
            error => error,
        }
    }

    fn retry(&self, call: &ToolCall, ctx: &ToolContext, hint: String) -> ToolError {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, answer) = (key(call, ctx), ctx.turn.map(|turn| (ctx.run_id.clone(), turn)));
        if self.max_retries == 0 {
            return ToolError::InvalidInput(hint);
        }
        if answer.is_some() && counts.get(&key).is_some_and(|count| count.last == answer) {
            return ToolError::ModelRetry(hint);
        }
        let times = counts.shift_remove(&key).map_or(0, |count| count.times);
        if times == self.max_retries {
            return ToolError::InvalidInput(format!(
                "`{}` was called wrongly {} times in a row; the last time: {hint}",
                call.name,
                times + 1
            ));
        }
        if counts.len() == MOST_COUNTS {
            counts.shift_remove_index(0);
        }
        counts.insert(key, Count { times: times + 1, last: answer });
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
    fn what_is_remembered_of_abandoned_conversations_is_bounded() {
        let limit = RetryLimit::new(1);
        let call = ToolCall { id: String::new(), name: "t".into(), input: serde_json::Value::Null };
        let fail = |run: usize| {
            let ctx = ToolContext { run_id: run.to_string(), ..ToolContext::default() };
            limit.settle(&call, &ctx, Err(ToolError::ModelRetry("again".into())))
        };
        for run in 0..=MOST_COUNTS {
            assert!(matches!(fail(run), Err(ToolError::ModelRetry(_))));
        }
        assert_eq!(limit.counts.lock().unwrap().len(), MOST_COUNTS);
        assert!(matches!(fail(MOST_COUNTS), Err(ToolError::InvalidInput(_))));
        // The oldest was forgotten.
        assert!(matches!(fail(0), Err(ToolError::ModelRetry(_))));
    }
}
