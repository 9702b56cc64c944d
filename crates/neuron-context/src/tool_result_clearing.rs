//! A context strategy that removes the content of old tool results.

use neuron_types::{
    ContentBlock, ContentItem, ContextError, ContextStrategy, Message, RequestRef, Role, TokenUsage,
};

use crate::TokenCounter;
use crate::calibrated_estimate::CalibratedEstimate;
use crate::history::repaired;
use crate::token_counter::total;

/// The text that replaces the content of a cleared tool result.
const CLEARED: &str = "[tool result cleared]";

/// A context strategy that replaces the content of old tool results with `[tool result cleared]`.
///
/// No message is dropped. Each cleared result keeps its id and its error flag. These results are not cleared:
///
/// - The newest `keep` results.
/// - Results after the model's last response, because the model has not seen them.
/// - Results in [pinned](Message::pinned) messages.
/// - Results that would not become shorter, such as `ok`.
///
/// One compaction clears all other results, because each compaction invalidates the provider's cache of the
/// conversation. Use [`with_at_least`](Self::with_at_least) to avoid compactions that free few tokens.
///
/// # Example
///
/// ```
/// use neuron_context::ToolResultClearingStrategy;
///
/// // Keep the 2 newest results when the conversation exceeds 100,000 tokens.
/// let strategy = ToolResultClearingStrategy::new(2, 100_000);
/// // The same, but only if it frees 10,000 tokens.
/// let strategy = ToolResultClearingStrategy::new(2, 100_000).with_at_least(10_000);
/// ```
#[derive(Debug, Clone)]
pub struct ToolResultClearingStrategy {
    /// Number of newest results to keep.
    keep: usize,
    /// Size of a request in tokens above which a compaction is due.
    max_tokens: usize,
    /// Minimum number of tokens that a compaction must free.
    at_least: usize,
    counter: TokenCounter,
}

impl ToolResultClearingStrategy {
    /// Creates a strategy that keeps the newest `keep` results when the conversation exceeds `max_tokens`.
    #[must_use]
    pub fn new(keep: usize, max_tokens: usize) -> Self {
        Self::with_counter(keep, max_tokens, TokenCounter::new())
    }

    /// Creates a strategy that keeps the newest `keep` results when the conversation exceeds `max_tokens`, with a
    /// custom token counter.
    #[must_use]
    pub fn with_counter(keep: usize, max_tokens: usize, counter: TokenCounter) -> Self {
        Self { keep, max_tokens, at_least: 0, counter }
    }

    /// Sets the minimum number of tokens that a compaction must free. If clearing would free fewer tokens, the
    /// conversation does not change. The default is zero.
    #[must_use]
    pub fn with_at_least(mut self, tokens: usize) -> Self {
        self.at_least = tokens;
        self
    }

    /// Returns `true` if `token_count` exceeds the budget and clearing would free enough tokens. `size` creates the
    /// estimate of the freed tokens. It is called only if `token_count` exceeds the budget.
    fn is_due<'a>(
        &self,
        messages: &[Message],
        token_count: usize,
        size: impl FnOnce() -> CalibratedEstimate<'a>,
    ) -> bool {
        // Check the limit first. On most turns the history is below the limit, and an estimate reads the whole history.
        token_count > self.max_tokens
            && (self.at_least == 0 || self.frees_enough(messages, &size()))
    }

    /// Clears the old results if this frees enough tokens.
    fn compacted(&self, messages: Vec<Message>, size: &CalibratedEstimate<'_>) -> Vec<Message> {
        let mut messages = repaired(messages);
        if self.frees_enough(&messages, size) {
            for (index, place) in self.old_results(&messages) {
                let message = messages.get_mut(index);
                if let Some(block) = message.and_then(|message| message.content.get_mut(place))
                    && let Some((cleared, _)) = self.cleared(block)
                {
                    *block = cleared;
                }
            }
        }
        messages
    }

    /// Returns `true` if clearing the old results would free at least the minimum number of tokens.
    fn frees_enough(&self, messages: &[Message], size: &CalibratedEstimate<'_>) -> bool {
        self.at_least == 0 || size.scaled(self.freed(messages)) >= self.at_least
    }

    /// Estimates the number of tokens that clearing the old results would free. The actual token count of the request
    /// is not used.
    fn freed(&self, messages: &[Message]) -> usize {
        let old = self.old_results(messages).into_iter();
        let blocks = old.filter_map(|(index, place)| messages.get(index)?.content.get(place));
        total(blocks.filter_map(|block| self.cleared(block)).map(|(_, freed)| freed))
    }

    /// Returns a tool result without its content, and the number of tokens that this frees. Returns `None` if it would free
    /// none. A `ContentBlock::Raw` becomes a portable result, because the vendor's JSON also contains the content.
    fn cleared(&self, block: &ContentBlock) -> Option<(ContentBlock, usize)> {
        let ContentBlock::ToolResult { tool_use_id, is_error, .. } = block.portable()? else {
            return None;
        };
        let cleared = ContentBlock::ToolResult {
            tool_use_id: tool_use_id.clone(),
            content: vec![ContentItem::Text(CLEARED.to_owned())],
            is_error: *is_error,
        };
        let size = |block| self.counter.estimate_block(block);
        let freed = size(block).saturating_sub(size(&cleared));
        (freed > 0).then_some((cleared, freed))
    }

    /// Returns the results to clear, each as the index of the message and the index of the block in the message.
    fn old_results(&self, messages: &[Message]) -> Vec<(usize, usize)> {
        let last_answer = messages.iter().rposition(|message| message.role == Role::Assistant);
        // Number of results that are still to be kept. Iterate from the newest result.
        let mut keep = self.keep;
        let mut old = Vec::new();
        for (index, message) in messages.iter().enumerate().rev() {
            let is_unseen = last_answer.is_none_or(|answer| index > answer);
            let stays_whole = is_unseen || message.is_pinned();
            for (place, block) in message.content.iter().enumerate().rev() {
                if block.as_tool_result_id().is_none() {
                    continue;
                }
                if keep == 0 && !stays_whole {
                    old.push((index, place));
                }
                // Results that must not be cleared also count for `keep`.
                keep = keep.saturating_sub(1);
            }
        }
        old
    }
}

impl ContextStrategy for ToolResultClearingStrategy {
    fn should_compact(&self, messages: &[Message], token_count: usize) -> bool {
        let size = || CalibratedEstimate::of_messages(&self.counter, messages, token_count);
        self.is_due(messages, token_count, size)
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(self.compacted(messages, &CalibratedEstimate::uncalibrated(&self.counter)))
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        self.counter.estimate_messages(messages)
    }

    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        self.counter.estimate_request(request)
    }

    fn should_compact_request(&self, request: RequestRef<'_>, token_count: usize) -> bool {
        let size = || CalibratedEstimate::new(&self.counter, request, token_count);
        self.is_due(request.messages, token_count, size)
    }

    fn counts_tokens(&self) -> bool {
        true
    }

    async fn compact_request(
        &self,
        request: RequestRef<'_>,
        token_count: usize,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        let size = CalibratedEstimate::new(&self.counter, request, token_count);
        Ok((self.compacted(request.messages.to_vec(), &size), TokenUsage::default()))
    }
}
