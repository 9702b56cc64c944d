//! The window: the last messages stay, the oldest go.

use neuron_types::{CompletionRequest, ContextError, ContextStrategy, Message, Role};

use crate::TokenCounter;

/// Drops the oldest messages: keeps system messages and the last `window` others.
///
/// What it keeps is always a valid history:
///
/// - a tool call and its results stay or go together. So it may keep fewer than `window`
///   messages, and more only when the next line and the newest exchange together are more;
/// - the user message that started the run (the last that is not a tool result) stays, and counts
///   as one of the `window`;
/// - what remains begins with the user. A conversation without a user message is left as it is.
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
/// ```
#[derive(Debug, Clone)]
pub struct SlidingWindowStrategy {
    window: usize,
    max_tokens: usize,
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
        Self { window, max_tokens, counter }
    }
}

impl ContextStrategy for SlidingWindowStrategy {
    fn should_compact(&self, _messages: &[Message], token_count: usize) -> bool {
        token_count > self.max_tokens
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        let keep = choose(&messages, self.window);
        let kept = messages.into_iter().zip(keep);
        Ok(kept.filter_map(|(message, keep)| keep.then_some(message)).collect())
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        self.counter.estimate_messages(messages)
    }

    fn estimate_request(&self, request: &CompletionRequest) -> usize {
        self.counter.estimate_request(request)
    }
}

/// Says for each message whether it stays.
fn choose(messages: &[Message], window: usize) -> Vec<bool> {
    let goal = messages.iter().rposition(is_plain_user);
    let Some(goal) = goal else {
        return vec![true; messages.len()];
    };
    let exchanges = exchanges(messages);
    let mut room = window.saturating_sub(1);
    let mut newest = true;
    let mut first_kept = messages.len();
    for exchange in exchanges.iter().rev() {
        if exchange.start != goal {
            if exchange.len > room && !newest {
                break;
            }
            room = room.saturating_sub(exchange.len);
        }
        newest = false;
        first_kept = exchange.start;
    }
    if exchanges.first().is_some_and(|oldest| oldest.start == first_kept) {
        return vec![true; messages.len()];
    }
    // Inside the window as well, the goal is the last user message that may come first.
    let begins_with_user = |index: &usize| messages.get(*index).is_some_and(is_plain_user);
    let first_kept = (first_kept..=goal).find(begins_with_user).unwrap_or(first_kept);
    messages
        .iter()
        .enumerate()
        .map(|(index, message)| {
            message.role == Role::System || index >= first_kept || index == goal
        })
        .collect()
}

/// Messages that stay or go together: a single one, or calls with their results.
struct Exchange {
    start: usize,
    /// How many messages it has, system messages not counted.
    len: usize,
}

/// Splits what is no system message into exchanges.
fn exchanges(messages: &[Message]) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if message.role == Role::System {
            continue;
        }
        match exchanges.last_mut() {
            Some(last) if has_result(message) => last.len += 1,
            _ => exchanges.push(Exchange { start: index, len: 1 }),
        }
    }
    exchanges
}

fn is_plain_user(message: &Message) -> bool {
    message.role == Role::User && !has_result(message)
}

fn has_result(message: &Message) -> bool {
    message.content.iter().any(|block| block.as_tool_result_id().is_some())
}

#[cfg(test)]
mod tests;
