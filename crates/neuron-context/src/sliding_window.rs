//! A context strategy that keeps only the newest messages.

use neuron_types::{ContextError, ContextStrategy, Message, RequestRef, Role, TokenUsage};

use crate::TokenCounter;
use crate::calibrated_estimate::CalibratedEstimate;
use crate::history::{complete, exchanges, is_plain_user, may_begin, protected, repaired};
use crate::low_water_mark::choose_within;

/// A context strategy that drops the oldest messages. It keeps all system messages and the last `window` other
/// messages.
///
/// The result is always a valid history. The number of kept messages may therefore differ from `window`:
///
/// - A tool call and its results are kept or dropped together. The newest message, or the newest calls with their
///   results, are always kept.
/// - The user message that started the run is kept, and counts as one of the `window` messages.
/// - The newest user message may have been added during the run. It is then kept too, and also counts. The last tool
///   calls and results before it are kept as well.
/// - [Pinned](Message::pinned) messages are kept, and do not count as `window` messages. If the first kept message is a
///   pinned response, the user message before this response is kept too.
/// - If messages of earlier runs are kept, the last response of the previous run may be kept too. It separates these
///   messages from the current run.
/// - The result starts with a user message or a summary. A conversation without a user message does not change.
///
/// # Prompt caches
///
/// A compaction rewrites the conversation, which invalidates the provider's cache. If the last `window` messages almost
/// fill the budget, the next compaction is due soon. With [`with_low_water_mark`](Self::with_low_water_mark), one
/// compaction frees space for many turns.
///
/// # Example
///
/// ```
/// use neuron_context::{SlidingWindowStrategy, TokenCounter};
///
/// // Keep 20 messages after the estimate exceeds 100,000 tokens.
/// let strategy = SlidingWindowStrategy::new(20, 100_000);
/// // The same, for text with fewer characters per token.
/// let strategy = SlidingWindowStrategy::with_counter(20, 100_000, TokenCounter::with_ratio(3.5));
/// // Keep fewer than 20 if they exceed 60,000 tokens.
/// let strategy = SlidingWindowStrategy::new(20, 100_000).with_low_water_mark(60_000);
/// ```
#[derive(Debug, Clone)]
pub struct SlidingWindowStrategy {
    /// Number of newest messages to keep.
    window: usize,
    /// Size of a request in tokens above which a compaction is due.
    max_tokens: usize,
    /// Maximum size of the request in tokens after a compaction. `None` means that only `window` applies.
    low_water_mark: Option<usize>,
    counter: TokenCounter,
}

impl SlidingWindowStrategy {
    /// Creates a strategy that keeps the last `window` messages when the conversation exceeds `max_tokens`.
    #[must_use]
    pub fn new(window: usize, max_tokens: usize) -> Self {
        Self::with_counter(window, max_tokens, TokenCounter::new())
    }

    /// Creates a strategy that keeps the last `window` messages when the conversation exceeds `max_tokens`, with a
    /// custom token counter.
    #[must_use]
    pub fn with_counter(window: usize, max_tokens: usize, counter: TokenCounter) -> Self {
        Self { window, max_tokens, low_water_mark: None, counter }
    }

    /// Sets the low-water mark, the maximum size that a request should have after a compaction. A compaction keeps
    /// fewer than `window` messages if the request would otherwise have more than `tokens` tokens. By default there is
    /// no mark.
    #[must_use]
    pub fn with_low_water_mark(mut self, tokens: usize) -> Self {
        self.low_water_mark = Some(tokens);
        self
    }

    /// Returns the messages that remain after a compaction. `size` estimates the size of a request with other messages,
    /// which is compared with the low-water mark.
    fn compacted(&self, messages: Vec<Message>, size: &CalibratedEstimate<'_>) -> Vec<Message> {
        let messages = repaired(messages);
        let keep = choose_within(self.low_water_mark, self.window, &messages, size, choose);
        let kept = messages.into_iter().zip(keep);
        kept.filter_map(|(message, keep)| keep.then_some(message)).collect()
    }
}

impl ContextStrategy for SlidingWindowStrategy {
    fn should_compact(&self, _messages: &[Message], token_count: usize) -> bool {
        token_count > self.max_tokens
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

/// Returns one flag per message, set if a window of this number of messages keeps the message.
fn choose(messages: &[Message], window: usize) -> Vec<bool> {
    let all = || vec![true; messages.len()];
    let Some(newest_user) = messages.iter().rposition(is_plain_user) else {
        return all();
    };
    let exchanges = exchanges(messages);
    let protected = protected(messages, &exchanges);
    // Protected user messages count for the window, but pinned messages do not.
    let is_counted =
        |index: &&usize| messages.get(**index).is_some_and(|m| is_plain_user(m) && !m.is_pinned());
    // Number of further messages that fit into the window.
    let mut room = window.saturating_sub(protected.iter().filter(is_counted).count());
    let mut newest = true;
    let mut first_kept = messages.len();
    for exchange in exchanges.iter().rev() {
        if !protected.contains(&exchange.start) {
            // The newest exchange is kept even if it exceeds the window.
            if exchange.len() > room && !newest {
                break;
            }
            room = room.saturating_sub(exchange.len());
        }
        newest = false;
        first_kept = exchange.start;
    }
    // If every exchange fits, keep the whole history, even if it starts with an assistant message.
    if exchanges.first().is_some_and(|oldest| oldest.start == first_kept) {
        return all();
    }
    let may_come_first = |index: &usize| messages.get(*index).is_some_and(may_begin);
    // A valid history starts with a user message. Drop assistant messages and results before the first kept one.
    let first_kept = (first_kept..=newest_user).find(may_come_first).unwrap_or(first_kept);
    let mut keep: Vec<bool> = messages
        .iter()
        .enumerate()
        .map(|(index, message)| {
            message.role == Role::System || index >= first_kept || protected.contains(&index)
        })
        .collect();
    complete(messages, &mut keep);
    keep
}

#[cfg(test)]
mod tests;
