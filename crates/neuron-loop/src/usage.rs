//! Counting what calls of the model took, also those of which the provider says nothing.

use neuron_types::{CompletionResponse, ContextStrategy, DurableContext, Provider, TokenUsage};

use crate::AgentLoop;

impl<P, C, D> AgentLoop<P, C, D> {
    /// Returns the part of [`usage`](Self::usage) that is an estimate.
    ///
    /// An answer for which the provider reports no tokens at all counts as many as the context
    /// strategy estimates, for limits too; the log has a warning, once a run. The response that hooks
    /// and readers see keeps the provider's zeros.
    #[must_use]
    pub fn estimated_usage(&self) -> &TokenUsage {
        &self.run.estimated_usage
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Counts what an answer took, before it becomes part of the conversation. The response keeps the
    /// provider's report: what was estimated stands in the run's usage alone.
    pub(crate) fn count_usage(&mut self, response: &CompletionResponse) {
        if response.usage.total_tokens() > 0 {
            self.add_usage(&response.usage);
            return;
        }
        let usage = TokenUsage {
            input_tokens: self.current_tokens(),
            output_tokens: self.context.token_estimate(std::slice::from_ref(&response.message)),
            ..TokenUsage::default()
        };
        if !std::mem::replace(&mut self.run.told_of_estimates, true) {
            tracing::warn!(
                input_tokens = usage.input_tokens,
                output_tokens = usage.output_tokens,
                "the provider reports no usage; the context strategy's estimates count in its place"
            );
        }
        self.run.estimated_usage += &usage;
        self.add_usage(&usage);
    }

    pub(crate) fn add_usage(&mut self, usage: &TokenUsage) {
        self.run.usage += usage;
        self.total_usage += usage;
    }
}
