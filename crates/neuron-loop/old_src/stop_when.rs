//! Conditions on which a run ends after tools ran.

use neuron_types::{StopReason, WasmCompatSend, WasmCompatSync};

use crate::engine::{Step, answer_text};
use crate::tool_results::place_of_results;
use crate::{AgentLoop, RunView};

/// A condition of [`stop_when`](crate::AgentLoopBuilder::stop_when).
pub(crate) trait StopCondition: WasmCompatSend + WasmCompatSync {
    fn is_met(&self, run: &RunView<'_>) -> bool;
}

impl<F> StopCondition for F
where
    F: Fn(&RunView<'_>) -> bool + WasmCompatSend + WasmCompatSync,
{
    fn is_met(&self, run: &RunView<'_>) -> bool {
        self(run)
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    /// After tools ran: notes that the run ends, if a condition wants that. The step that ran them is
    /// reported first.
    pub(crate) fn stop_if_asked(&mut self, step: &Step, stop_reason: StopReason) {
        let view = self.view();
        let is_met = matches!(step, Step::Tools { .. })
            && self.stop_conditions.iter().any(|condition| condition.is_met(&view));
        if is_met {
            // Now: messages may be added until the next step.
            let messages = &self.request.messages;
            let end = place_of_results(messages).and_then(|at| messages.get(..=at));
            self.run.stopped = Some((stop_reason, answer_text(end.unwrap_or(messages))));
        }
    }
}
