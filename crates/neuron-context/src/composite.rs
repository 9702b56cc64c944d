//! A context strategy that applies several strategies in order.

use std::borrow::Cow;
use std::collections::VecDeque;

use neuron_types::{
    BoxedStrategy, ContextError, ContextStrategy, DurableError, Message, ProviderError, RequestRef,
    TokenUsage,
};

use crate::TokenCounter;
use crate::calibrated_estimate::CalibratedEstimate;

/// A context strategy that applies several strategies until the conversation is within its budget.
///
/// The strategies are applied in order, each to the result of the preceding strategy. They are applied again while the
/// conversation exceeds the budget and one of them has an effect. The budgets of the single strategies are ignored.
///
/// Put cheap strategies first. For example, it is often enough to clear old tool results.
///
/// The result of a strategy that does not shorten the conversation is discarded. If a strategy fails, its error is
/// logged and the next strategy is applied. The first error is returned only if no strategy had an effect. Its
/// [usage](ContextError::usage) has the tokens of all strategies.
///
/// # Example
///
/// ```
/// use neuron_context::{
///     CompositeStrategy, SlidingWindowStrategy, ToolResultClearingStrategy,
///     strategies::BoxedStrategy,
/// };
///
/// let strategy = CompositeStrategy::new(
///     vec![
/// // First, clear old tool results.
///         BoxedStrategy::new(ToolResultClearingStrategy::new(2, 100_000)),
/// // Then, if necessary, drop old messages.
///         BoxedStrategy::new(SlidingWindowStrategy::new(10, 100_000)),
///     ],
///     100_000,
/// )
/// // One compaction frees space for many turns.
/// .with_low_water_mark(70_000);
/// ```
#[derive(Debug, Clone)]
pub struct CompositeStrategy {
    /// The strategies in the order in which they are applied.
    strategies: Vec<BoxedStrategy>,
    /// Size of a request in tokens above which a compaction is due.
    max_tokens: usize,
    /// Size of a request in tokens at which a compaction stops. `None` means `max_tokens`.
    low_water_mark: Option<usize>,
    counter: TokenCounter,
}

impl CompositeStrategy {
    /// Creates a strategy that compacts when the conversation exceeds `max_tokens`.
    #[must_use]
    pub fn new(strategies: Vec<BoxedStrategy>, max_tokens: usize) -> Self {
        Self::with_counter(strategies, max_tokens, TokenCounter::new())
    }

    /// Creates a strategy that compacts when the conversation exceeds `max_tokens`, with a custom token counter.
    #[must_use]
    pub fn with_counter(
        strategies: Vec<BoxedStrategy>,
        max_tokens: usize,
        counter: TokenCounter,
    ) -> Self {
        Self { strategies, max_tokens, low_water_mark: None, counter }
    }

    /// Sets the low-water mark. A compaction applies strategies until the conversation has at most `tokens` tokens. The
    /// default is the budget `max_tokens`. A mark above the budget has no effect.
    #[must_use]
    pub fn with_low_water_mark(mut self, tokens: usize) -> Self {
        self.low_water_mark = Some(tokens);
        self
    }
}

impl ContextStrategy for CompositeStrategy {
    fn should_compact(&self, _messages: &[Message], token_count: usize) -> bool {
        token_count > self.max_tokens
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(self.compact_with_usage(messages).await?.0)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        self.counter.estimate_messages(messages)
    }

    async fn compact_with_usage(
        &self,
        messages: Vec<Message>,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        let request = RequestRef { messages: &messages, ..RequestRef::default() };
        self.compact_request(request, self.estimate_request(request)).await
    }

    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        self.counter.estimate_request(request)
    }

    fn counts_tokens(&self) -> bool {
        true
    }

    async fn compact_request(
        &self,
        request: RequestRef<'_>,
        token_count: usize,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        // With a mark above the budget, the next turn would compact again.
        let target = self.low_water_mark.map_or(self.max_tokens, |mark| mark.min(self.max_tokens));
        let size = CalibratedEstimate::new(&self.counter, request, token_count);
        let (mut messages, mut tokens) = (Cow::Borrowed(request.messages), token_count);
        let mut usage = TokenUsage::default();
        let (mut failure, mut had_effect) = (None, false);
        // The strategies in the order of their next application. A strategy that was applied moves to the end.
        let mut turns: VecDeque<&BoxedStrategy> = self.strategies.iter().collect();
        // Number of consecutive strategies without an effect on the current messages.
        let mut idle = 0;
        while tokens > target && idle < turns.len() {
            let Some(strategy) = turns.pop_front() else {
                break;
            };
            let request = RequestRef { messages: &messages, ..request };
            let compacted = match strategy.compact_request(request, tokens).await {
                Ok((compacted, used)) => {
                    usage += &used;
                    compacted
                }
                Err(error) if is_engine_error(&error) => return Err(error),
                Err(error) => {
                    // Log without a parent span. An exporter of spans also exports their log events, and the error's
                    // text may quote the conversation.
                    tracing::warn!(parent: None, %error, "a strategy failed; the next is tried");
                    if let Some(used) = error.usage() {
                        usage += used;
                    }
                    // The first error is returned. The failed strategy is not queued again.
                    failure = failure.or(Some(error));
                    continue;
                }
            };
            turns.push_back(strategy);
            idle += 1;
            let left = size.tokens(&compacted);
            if left < tokens || (left == tokens && compacted.len() < messages.len()) {
                (messages, tokens, had_effect) = (Cow::Owned(compacted), left, true);
                // The strategies before this one may have an effect on the new messages. This strategy would not change
                // its own result again.
                idle = 1;
            }
        }
        match failure {
            // Report the tokens that all strategies used in the error.
            Some(error) if !had_effect => Err(error.with_usage(usage)),
            _ => Ok((messages.into_owned(), usage)),
        }
    }
}

/// Returns `true` if the durable engine ended the run. Then no other strategy may be applied.
fn is_engine_error(error: &ContextError) -> bool {
    match error {
        ContextError::Provider(ProviderError::Other(error)) => error.is::<DurableError>(),
        _ => false,
    }
}
