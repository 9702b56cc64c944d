//! The window: the last messages stay, the oldest go.

use neuron_types::{ContextError, ContextStrategy, Message, RequestRef, Role, TokenUsage};

use crate::TokenCounter;
use crate::corrected::Corrected;
use crate::history::{complete, exchanges, is_plain_user, may_begin, protected, repaired};
use crate::low_water_mark::choose_within;

/// Drops the oldest messages: keeps system messages and the last `window` others.
///
/// What it keeps is always a valid history:
///
/// - a tool call and its results stay or go together. So it may keep fewer than `window`
///   messages, and more only when the next lines and the newest exchange together are more;
/// - the user message that started the run stays, and counts as one of the `window`. So does the
///   newest message of the user if it came in the middle of the run, with the results before it;
/// - messages that are [pinned](Message::pinned) stay, like system messages, and with them the
///   question that they answer or the answer before the run, where the history needs these;
/// - what remains begins with the user, or with a summary. A conversation without a user message is
///   left as it is.
///
/// # Prompt caches
///
/// A compaction rewrites the conversation, so that the provider's cache of it is lost. Where the last
/// `window` messages fill the budget almost, the next follows soon:
/// [`with_low_water_mark`](Self::with_low_water_mark) lets one compaction make room for many turns.
///
/// # Example
///
/// ```
/// use neuron_context::{SlidingWindowStrategy, TokenCounter};
///
/// // Keep 20 messages once the estimate exceeds 100,000 tokens.
/// let strategy = SlidingWindowStrategy::new(20, 100_000);
/// // The same, for texts with fewer characters to a token.
/// let strategy = SlidingWindowStrategy::with_counter(20, 100_000, TokenCounter::with_ratio(3.5));
/// // Fewer than 20 if they are more than 60,000 tokens.
/// let strategy = SlidingWindowStrategy::new(20, 100_000).with_low_water_mark(60_000);
/// ```
#[derive(Debug, Clone)]
pub struct SlidingWindowStrategy {
    window: usize,
    max_tokens: usize,
    low_water_mark: Option<usize>,
    counter: TokenCounter,
}

impl SlidingWindowStrategy {
    /// Keeps the last `window` messages once the conversation exceeds `max_tokens`.
    #[must_use]
    pub fn new(window: usize, max_tokens: usize) -> Self {
        Self::with_counter(window, max_tokens, TokenCounter::new())
    }

    /// The same, with a counter of one's own.
    #[must_use]
    pub fn with_counter(window: usize, max_tokens: usize, counter: TokenCounter) -> Self {
        Self { window, max_tokens, low_water_mark: None, counter }
    }

    /// Keeps fewer messages than the window allows, if need be, until they are at most so many
    /// tokens. Default: the window alone counts.
    #[must_use]
    pub fn with_low_water_mark(mut self, tokens: usize) -> Self {
        self.low_water_mark = Some(tokens);
        self
    }

    fn compacted(&self, messages: Vec<Message>, size: &Corrected<'_>) -> Vec<Message> {
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
        Ok(self.compacted(messages, &Corrected::plain(&self.counter)))
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
        let size = Corrected::new(&self.counter, request, token_count);
        Ok((self.compacted(request.messages.to_vec(), &size), TokenUsage::default()))
    }
}

/// Says for each message whether it stays.
fn choose(messages: &[Message], window: usize) -> Vec<bool> {
    let all = || vec![true; messages.len()];
    let Some(newest_user) = messages.iter().rposition(is_plain_user) else {
        return all();
    };
    let exchanges = exchanges(messages);
    let protected = protected(messages, &exchanges);
    // What is said by the user and stays in any case; what is pinned is not counted.
    let is_counted =
        |index: &&usize| messages.get(**index).is_some_and(|m| is_plain_user(m) && !m.is_pinned());
    let mut room = window.saturating_sub(protected.iter().filter(is_counted).count());
    let mut newest = true;
    let mut first_kept = messages.len();
    for exchange in exchanges.iter().rev() {
        if !protected.contains(&exchange.start) {
            if exchange.len() > room && !newest {
                break;
            }
            room = room.saturating_sub(exchange.len());
        }
        newest = false;
        first_kept = exchange.start;
    }
    if exchanges.first().is_some_and(|oldest| oldest.start == first_kept) {
        return all();
    }
    let may_come_first = |index: &usize| messages.get(*index).is_some_and(may_begin);
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
