//! The meter on which a tool call counts the tokens that it takes itself.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::TokenUsage;

/// Counts the tokens that a tool call takes itself: those of an agent within it, or of a model that it
/// calls. Clones count together.
///
/// Every call finds one of its own in [`ToolContext::usage`](crate::ToolContext::usage). What is
/// counted there until the call ends, however it ends, belongs to the run that made the call: to its
/// usage and its limits on tokens. An agent counts by itself what it takes on the meter of the context
/// that it runs with; what else a tool takes it adds.
///
/// A meter on which nothing is counted, and of which there is no clone, costs no allocation.
///
/// # Example: a tool that calls a model
///
/// ```
/// use neuron_types::{CompletionRequest, Message, Provider, ToolContext, ToolError};
///
/// async fn summary(text: &str, model: &impl Provider, ctx: &ToolContext) -> Result<String, ToolError> {
///     let request = CompletionRequest { messages: vec![Message::user(text)], ..Default::default() };
///     let response = model.complete(request).await;
///     let response = response.map_err(|error| ToolError::ExecutionFailed(Box::new(error)))?;
///     ctx.usage.add(&response.usage);
///     Ok(response.message.text())
/// }
/// ```
#[derive(Default)]
pub struct UsageMeter(OnceLock<Arc<Mutex<TokenUsage>>>);

impl UsageMeter {
    /// Counts tokens that were taken.
    pub fn add(&self, usage: &TokenUsage) {
        *self.count() += usage;
    }

    /// Returns what was counted so far.
    #[must_use]
    pub fn total(&self) -> TokenUsage {
        self.0.get().map(|count| locked(count).clone()).unwrap_or_default()
    }

    /// Returns what was counted so far, and counts anew from there: for whoever owns the meter and hands
    /// on what it counts.
    #[must_use = "what was counted is counted nowhere else"]
    pub fn take(&self) -> TokenUsage {
        self.0.get().map(|count| std::mem::take(&mut *locked(count))).unwrap_or_default()
    }

    /// Adds what was counted so far to another meter, and counts anew from there.
    pub fn hand_on(&self, to: &Self) {
        let usage = self.take();
        if usage != TokenUsage::default() {
            to.add(&usage);
        }
    }

    fn count(&self) -> MutexGuard<'_, TokenUsage> {
        locked(self.0.get_or_init(Arc::default))
    }
}

fn locked(count: &Mutex<TokenUsage>) -> MutexGuard<'_, TokenUsage> {
    count.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts together with the original.
impl Clone for UsageMeter {
    fn clone(&self) -> Self {
        Self(OnceLock::from(self.0.get_or_init(Arc::default).clone()))
    }
}

impl fmt::Debug for UsageMeter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UsageMeter").field(&self.total()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input_tokens: usize) -> TokenUsage {
        TokenUsage { input_tokens, ..TokenUsage::default() }
    }

    #[test]
    fn clones_count_together_whoever_counts_first() {
        let meter = UsageMeter::default();
        assert_eq!(meter.total(), TokenUsage::default());
        let clone = meter.clone();
        clone.add(&tokens(3));
        meter.add(&tokens(4));
        assert_eq!((meter.total(), clone.total()), (tokens(7), tokens(7)));
        assert_eq!(clone.take(), tokens(7));
        assert_eq!((meter.take(), clone.total()), (tokens(0), tokens(0)));
        clone.add(&tokens(1));
        assert_eq!(meter.total(), tokens(1));
        assert_eq!(UsageMeter::default().take(), tokens(0));
    }

    #[test]
    fn a_count_saturates() {
        let meter = UsageMeter::default();
        meter.add(&tokens(usize::MAX));
        meter.add(&tokens(1));
        assert_eq!(meter.total(), tokens(usize::MAX));
    }

    #[test]
    fn threads_lose_nothing() {
        let meter = UsageMeter::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| meter.clone().add(&tokens(1))));
            }
        });
        assert_eq!(meter.total(), tokens(4000));
    }
}
