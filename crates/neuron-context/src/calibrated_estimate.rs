//! Token estimates that are corrected with the known size of a request.

use neuron_types::{Message, RequestRef};

use crate::TokenCounter;
use crate::token_counter::total;

/// Estimates the tokens of a request after its messages are replaced.
///
/// The actual size of the original request is known. Each estimate is multiplied by a correction factor, which is this
/// actual size divided by the estimated size of the original request.
pub(crate) struct CalibratedEstimate<'a> {
    counter: &'a TokenCounter,
    /// Estimated number of tokens of the system prompt and the tool definitions.
    overhead: usize,
    /// The correction factor, which is the ratio of actual tokens to estimated tokens of the original request.
    factor: f64,
}

impl<'a> CalibratedEstimate<'a> {
    /// Creates an estimate without correction, of messages without a system prompt and tools.
    pub(crate) fn uncalibrated(counter: &'a TokenCounter) -> Self {
        Self { counter, overhead: 0, factor: 1.0 }
    }

    /// Creates an estimate from a request whose actual size is `token_count` tokens.
    pub(crate) fn new(
        counter: &'a TokenCounter,
        request: RequestRef<'_>,
        token_count: usize,
    ) -> Self {
        let overhead = counter.estimate_overhead(request);
        let messages = counter.estimate_messages(request.messages);
        Self::calibrated(counter, overhead, messages, token_count)
    }

    /// Creates an estimate from messages whose actual size is `token_count` tokens, without a system prompt and tools.
    pub(crate) fn of_messages(
        counter: &'a TokenCounter,
        messages: &[Message],
        token_count: usize,
    ) -> Self {
        Self::calibrated(counter, 0, counter.estimate_messages(messages), token_count)
    }

    /// Creates an estimate from the sizes of the original request, in tokens.
    ///
    /// - `overhead` is the estimated size of its system prompt and tools.
    /// - `messages` is the estimated size of its messages.
    /// - `token_count` is the actual size of the whole request.
    fn calibrated(
        counter: &'a TokenCounter,
        overhead: usize,
        messages: usize,
        token_count: usize,
    ) -> Self {
        let factor = match overhead.saturating_add(messages) {
            // The request is empty, so there is no ratio.
            0 => 1.0,
            estimate => token_count as f64 / estimate as f64,
        };
        Self { counter, overhead, factor }
    }

    /// Returns the estimated number of tokens of the whole request if it had these messages instead of its own.
    pub(crate) fn tokens<'m>(&self, messages: impl IntoIterator<Item = &'m Message>) -> usize {
        self.with(messages.into_iter().map(|message| self.estimate(message)))
    }

    /// Returns the uncorrected estimate of a message in tokens, for a call of [`with`](Self::with).
    pub(crate) fn estimate(&self, message: &Message) -> usize {
        self.counter.estimate_message(message)
    }

    /// Returns the estimated number of tokens of the whole request with other messages. `estimates` contains the
    /// uncorrected estimate for each of the other messages, in tokens.
    pub(crate) fn with(&self, estimates: impl Iterator<Item = usize>) -> usize {
        self.scaled(self.overhead.saturating_add(total(estimates)))
    }

    /// Multiplies an uncorrected estimate by the correction factor. Both sizes are in tokens.
    pub(crate) fn scaled(&self, estimate: usize) -> usize {
        (estimate as f64 * self.factor).round() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_types::CompletionRequest;

    #[test]
    fn estimate_is_scaled_to_the_known_size() {
        let counter = TokenCounter::new();
        let [long, short] = [Message::user("x".repeat(384)), Message::user("x".repeat(84))];
        let request = CompletionRequest {
            messages: vec![long, short.clone()],
            system: Some("x".repeat(700).into()),
            ..Default::default()
        };
        assert_eq!(counter.estimate_request(request.view()), 175 + 100 + 25);
        let calibrated = CalibratedEstimate::new(&counter, request.view(), 600);
        assert_eq!(calibrated.tokens(&request.messages), 600);
        assert_eq!(calibrated.tokens([&short]), 400);
        assert_eq!(CalibratedEstimate::uncalibrated(&counter).tokens([&short]), 25);
        let empty = CompletionRequest::default();
        assert_eq!(CalibratedEstimate::new(&counter, empty.view(), 600).tokens([&short]), 25);
    }
}
