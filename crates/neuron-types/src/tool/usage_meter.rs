//! The counter of the tokens that a tool call uses.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::TokenUsage;

/// Counts the tokens that a tool call uses, for example for a model call inside the tool. Clones share the counter.
///
/// Each tool call has a meter in [`ToolContext::usage`](crate::ToolContext::usage). When the call ends, even with an
/// error, the calling run adds the counted tokens to its own usage, to which its token limits apply. An agent inside
/// the tool call adds its usage to the meter automatically. For other model calls, the tool itself must call
/// [`add`](Self::add).
///
/// The meter allocates memory only on the first `add` or clone.
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
    /// Adds tokens to the counter.
    pub fn add(&self, usage: &TokenUsage) {
        *self.count() += usage;
    }

    /// Returns the tokens that have been counted so far.
    #[must_use]
    pub fn total(&self) -> TokenUsage {
        self.0.get().map(|count| locked(count).clone()).unwrap_or_default()
    }

    /// Returns the counted tokens and resets the counter. The caller must count the returned tokens elsewhere.
    #[must_use = "what was counted is counted nowhere else"]
    pub fn take(&self) -> TokenUsage {
        self.0.get().map(|count| std::mem::take(&mut *locked(count))).unwrap_or_default()
    }

    /// Moves the counted tokens to the meter `to` and resets this counter.
    pub fn move_to(&self, to: &Self) {
        let usage = self.take();
        // Adding zero would allocate the counter of `to` for nothing.
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

/// Creates a meter that shares the counter.
impl Clone for UsageMeter {
    fn clone(&self) -> Self {
        // Create the counter now, because the clones could not share it later.
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
    fn clones_share_the_count() {
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
    fn count_saturates() {
        let meter = UsageMeter::default();
        meter.add(&tokens(usize::MAX));
        meter.add(&tokens(1));
        assert_eq!(meter.total(), tokens(usize::MAX));
    }

    #[test]
    fn concurrent_adds_are_all_counted() {
        let meter = UsageMeter::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| meter.clone().add(&tokens(1))));
            }
        });
        assert_eq!(meter.total(), tokens(4000));
    }
}
