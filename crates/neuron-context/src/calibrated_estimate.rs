//! Estimates that are corrected by what is known of a request's true size.

use neuron_types::{Message, RequestRef};

use crate::TokenCounter;
use crate::token_counter::total;

/// Estimates the tokens of a request with other messages.
pub(crate) struct Corrected<'a> {
    counter: &'a TokenCounter,
    /// What is sent beside the messages.
    surroundings: usize,
    /// By how much the truth is more than an estimate.
    factor: f64,
}

impl<'a> Corrected<'a> {
    /// Messages alone, of which nothing is known.
    pub(crate) fn plain(counter: &'a TokenCounter) -> Self {
        Self { counter, surroundings: 0, factor: 1.0 }
    }

    /// A request that takes `token_count` as it is.
    pub(crate) fn new(
        counter: &'a TokenCounter,
        request: RequestRef<'_>,
        token_count: usize,
    ) -> Self {
        let surroundings = counter.estimate_surroundings(request);
        let messages = counter.estimate_messages(request.messages);
        Self::known(counter, surroundings, messages, token_count)
    }

    /// Messages alone that take `token_count` as they are.
    pub(crate) fn of_messages(
        counter: &'a TokenCounter,
        messages: &[Message],
        token_count: usize,
    ) -> Self {
        Self::known(counter, 0, counter.estimate_messages(messages), token_count)
    }

    fn known(
        counter: &'a TokenCounter,
        surroundings: usize,
        messages: usize,
        token_count: usize,
    ) -> Self {
        let factor = match surroundings.saturating_add(messages) {
            0 => 1.0,
            estimate => token_count as f64 / estimate as f64,
        };
        Self { counter, surroundings, factor }
    }

    /// The tokens of the request with these messages.
    pub(crate) fn tokens<'m>(&self, messages: impl IntoIterator<Item = &'m Message>) -> usize {
        self.with(messages.into_iter().map(|message| self.estimate(message)))
    }

    /// The plain estimate of a message, for [`with`](Self::with).
    pub(crate) fn estimate(&self, message: &Message) -> usize {
        self.counter.estimate_message(message)
    }

    /// The tokens of the request with messages of these estimates.
    pub(crate) fn with(&self, estimates: impl Iterator<Item = usize>) -> usize {
        self.scaled(self.surroundings.saturating_add(total(estimates)))
    }

    /// The tokens behind an estimate.
    pub(crate) fn scaled(&self, estimate: usize) -> usize {
        (estimate as f64 * self.factor).round() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_types::CompletionRequest;

    #[test]
    fn an_estimate_is_scaled_to_what_is_known() {
        let counter = TokenCounter::new();
        let [long, short] = [Message::user("x".repeat(384)), Message::user("x".repeat(84))];
        let request = CompletionRequest {
            messages: vec![long, short.clone()],
            system: Some("x".repeat(700).into()),
            ..Default::default()
        };
        assert_eq!(counter.estimate_request(request.view()), 175 + 100 + 25);
        let corrected = Corrected::new(&counter, request.view(), 600);
        assert_eq!(corrected.tokens(&request.messages), 600);
        assert_eq!(corrected.tokens([&short]), 400);
        assert_eq!(Corrected::plain(&counter).tokens([&short]), 25);
        let empty = CompletionRequest::default();
        assert_eq!(Corrected::new(&counter, empty.view(), 600).tokens([&short]), 25);
    }
}
