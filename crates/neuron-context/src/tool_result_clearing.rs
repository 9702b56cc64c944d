//! Clearing: old results of tools lose their content.

use neuron_types::{
    ContentBlock, ContentItem, ContextError, ContextStrategy, Message, RequestRef, Role, TokenUsage,
};

use crate::TokenCounter;
use crate::corrected::Corrected;
use crate::history::repaired;
use crate::token_counter::total;

/// What stands in place of a result that was cleared.
const CLEARED: &str = "[tool result cleared]";

/// Replaces the content of old tool results by `[tool result cleared]`, and keeps the newest.
///
/// No message is lost, and each result keeps its id and whether it was an error, so that the
/// conversation still makes sense. These stay whole:
///
/// - the newest `keep` results;
/// - those that the model has not seen yet: it has not answered since;
/// - those in messages that are [pinned](Message::pinned).
///
/// All that may be cleared is cleared at once, so that the provider's cache of the conversation is
/// lost once and not on every turn. [`with_at_least`](Self::with_at_least) waits until that is
/// worth it.
///
/// # Example
///
/// ```
/// use neuron_context::ToolResultClearingStrategy;
///
/// // Keep the 2 newest results once the conversation exceeds 100,000 tokens.
/// let strategy = ToolResultClearingStrategy::new(2, 100_000);
/// // The same, but only if it frees 10,000 tokens.
/// let strategy = ToolResultClearingStrategy::new(2, 100_000).with_at_least(10_000);
/// ```
#[derive(Debug, Clone)]
pub struct ToolResultClearingStrategy {
    keep: usize,
    max_tokens: usize,
    at_least: usize,
    counter: TokenCounter,
}

impl ToolResultClearingStrategy {
    /// Keeps the newest `keep` results once the conversation exceeds `max_tokens`.
    #[must_use]
    pub fn new(keep: usize, max_tokens: usize) -> Self {
        Self::with_counter(keep, max_tokens, TokenCounter::new())
    }

    /// The same, with a counter of one's own.
    #[must_use]
    pub fn with_counter(keep: usize, max_tokens: usize, counter: TokenCounter) -> Self {
        Self { keep, max_tokens, at_least: 0, counter }
    }

    /// Leaves the conversation as it is while clearing would free fewer tokens. Default: zero.
    #[must_use]
    pub fn with_at_least(mut self, tokens: usize) -> Self {
        self.at_least = tokens;
        self
    }

    /// Returns `true` if a conversation of this size is above the limit, and clearing is worth it.
    fn is_due<'a>(
        &self,
        messages: &[Message],
        token_count: usize,
        size: impl FnOnce() -> Corrected<'a>,
    ) -> bool {
        // An estimate reads the whole history, which is short of the limit on most turns.
        token_count > self.max_tokens && (self.at_least == 0 || self.is_worth_it(messages, &size()))
    }

    fn compacted(&self, messages: Vec<Message>, size: &Corrected<'_>) -> Vec<Message> {
        let mut messages = repaired(messages);
        if self.is_worth_it(&messages, size) {
            for (index, place) in self.old_results(&messages) {
                let message = messages.get_mut(index);
                if let Some(block) = message.and_then(|message| message.content.get_mut(place)) {
                    clear(block);
                }
            }
        }
        messages
    }

    fn is_worth_it(&self, messages: &[Message], size: &Corrected<'_>) -> bool {
        self.at_least == 0 || size.scaled(self.freed(messages)) >= self.at_least
    }

    /// Estimates by how much clearing makes the messages shorter.
    fn freed(&self, messages: &[Message]) -> usize {
        let old = self.old_results(messages);
        let after = self.counter.estimate_text(CLEARED).saturating_mul(old.len());
        let blocks = old.into_iter().filter_map(|(index, place)| {
            messages.get(index).and_then(|message| message.content.get(place))
        });
        total(blocks.map(|block| self.counter.estimate_block(block))).saturating_sub(after)
    }

    /// Returns where the results stand that may be cleared: the message, and the place in it.
    fn old_results(&self, messages: &[Message]) -> Vec<(usize, usize)> {
        let last_answer = messages.iter().rposition(|message| message.role == Role::Assistant);
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
                keep = keep.saturating_sub(1);
            }
        }
        old
    }
}

impl ContextStrategy for ToolResultClearingStrategy {
    fn should_compact(&self, messages: &[Message], token_count: usize) -> bool {
        let size = || Corrected::of_messages(&self.counter, messages, token_count);
        self.is_due(messages, token_count, size)
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(self.compacted(messages, &Corrected::plain(&self.counter)))
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        self.counter.estimate_messages(messages)
    }

    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        self.counter.estimate_request(request)
    }

    fn should_compact_request(&self, request: RequestRef<'_>, token_count: usize) -> bool {
        let size = || Corrected::new(&self.counter, request, token_count);
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
        let size = Corrected::new(&self.counter, request, token_count);
        Ok((self.compacted(request.messages.to_vec(), &size), TokenUsage::default()))
    }
}

/// Replaces the content of a result. A vendor's own form of it goes with the content.
fn clear(block: &mut ContentBlock) {
    let Some(ContentBlock::ToolResult { tool_use_id, is_error, .. }) = block.portable() else {
        return;
    };
    *block = ContentBlock::ToolResult {
        tool_use_id: tool_use_id.clone(),
        content: vec![ContentItem::Text(CLEARED.to_owned())],
        is_error: *is_error,
    };
}
