//! Counting what calls of the model took, also those of which the provider says nothing, and what tools
//! took themselves.

use neuron_types::{
    CompletionResponse, ContextStrategy, DurableContext, Provider, TokenUsage, UsageMeter,
};

use crate::AgentLoop;
use crate::run_state::RunState;

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

    /// Returns the part of [`usage`](Self::usage) that tools took: agents within them, above all; see
    /// [`ToolContext::usage`](neuron_types::ToolContext::usage). It is there once the tools of an answer
    /// have ended.
    #[must_use]
    pub fn tool_usage(&self) -> &TokenUsage {
        &self.run.tool_usage
    }

    /// Counts what tools took since this was last done.
    pub(crate) fn count_tool_usage(&mut self) {
        drop(ToolUsage::of(&mut self.run, &mut self.total_usage));
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
        self.run.meter.add(usage);
        self.total_usage += usage;
    }
}

/// What tools take in a run. Dropping it counts that, so however a batch ends: finished, failed,
/// cancelled, or its future dropped.
pub(crate) struct ToolUsage<'a> {
    meter: &'a UsageMeter,
    outer: &'a UsageMeter,
    sums: [&'a mut TokenUsage; 3],
}

impl<'a> ToolUsage<'a> {
    pub(crate) fn of(run: &'a mut RunState, total: &'a mut TokenUsage) -> Self {
        Self::new(&run.tool_meter, &run.meter, [&mut run.usage, &mut run.tool_usage, total])
    }

    /// What stands on `meter` is added to the sums, and to what the context around the run counts.
    pub(crate) fn new(
        meter: &'a UsageMeter,
        outer: &'a UsageMeter,
        sums: [&'a mut TokenUsage; 3],
    ) -> Self {
        Self { meter, outer, sums }
    }
}

impl Drop for ToolUsage<'_> {
    fn drop(&mut self) {
        let usage = self.meter.take();
        if usage != TokenUsage::default() {
            self.outer.add(&usage);
            self.sums.iter_mut().for_each(|sum| **sum += &usage);
        }
    }
}

/// The meter of one call. Dropping it hands on to the run what was counted, so however the call ends.
pub(crate) struct CallMeter<'a> {
    pub(crate) call: &'a UsageMeter,
    pub(crate) run: &'a UsageMeter,
}

impl Drop for CallMeter<'_> {
    fn drop(&mut self) {
        let usage = self.call.take();
        if usage != TokenUsage::default() {
            self.run.add(&usage);
        }
    }
}
