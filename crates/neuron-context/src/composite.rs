//! A strategy that applies several strategies in order.

use std::borrow::Cow;
use std::collections::VecDeque;

use neuron_types::{
    BoxedStrategy, ContextError, ContextStrategy, DurableError, Message, ProviderError, RequestRef,
    TokenUsage,
};

use crate::TokenCounter;
use crate::calibrated_estimate::CalibratedEstimate;

/// Applies several strategies in order, each to the result of the previous one, until the conversation is within the
/// budget. If all together do not reach it, they are applied again, as long as one of them has an effect.
///
/// Put cheap strategies first, because clearing old results is often enough. Only the budget of the composite is used,
/// not the budgets of its strategies.
///
/// A strategy that does not shorten the conversation is skipped. A strategy that fails is also skipped, because the
/// next one may succeed. Its error is logged, and returned if no strategy had an effect.
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
    strategies: Vec<BoxedStrategy>,
    max_tokens: usize,
    low_water_mark: Option<usize>,
    counter: TokenCounter,
}

impl CompositeStrategy {
    /// Creates a strategy that compacts when the conversation exceeds `max_tokens`.
    #[must_use]
    pub fn new(strategies: Vec<BoxedStrategy>, max_tokens: usize) -> Self {
        Self::with_counter(strategies, max_tokens, TokenCounter::new())
    }

    /// Like [`new`](Self::new), with a custom counter.
    #[must_use]
    pub fn with_counter(
        strategies: Vec<BoxedStrategy>,
        max_tokens: usize,
        counter: TokenCounter,
    ) -> Self {
        Self { strategies, max_tokens, low_water_mark: None, counter }
    }

    /// Applies strategies until the conversation has at most this number of tokens. The default is the budget, which
    /// also applies if it is lower.
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
        // A mark above the budget would make every turn compact again.
        let target = self.low_water_mark.map_or(self.max_tokens, |mark| mark.min(self.max_tokens));
        let size = CalibratedEstimate::new(&self.counter, request, token_count);
        let (mut messages, mut tokens) = (Cow::Borrowed(request.messages), token_count);
        let mut usage = TokenUsage::default();
        let (mut failure, mut had_effect) = (None, false);
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
                    // Without a parent span, because exporters of spans also export their logs, with the error's text.
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
                // The strategy that was just applied would not change its own result.
                idle = 1;
            }
        }
        match failure {
            // The error reports the usage of all strategies.
            Some(ContextError::InvalidSummary { reason, .. }) if !had_effect => {
                Err(ContextError::InvalidSummary { reason, usage })
            }
            Some(error) if !had_effect => Err(error),
            _ => Ok((messages.into_owned(), usage)),
        }
    }
}

/// Returns `true` if the durable engine ended the run. Then no other strategy may be tried.
fn is_engine_error(error: &ContextError) -> bool {
    match error {
        ContextError::Provider(ProviderError::Other(error)) => error.is::<DurableError>(),
        _ => false,
    }
}
