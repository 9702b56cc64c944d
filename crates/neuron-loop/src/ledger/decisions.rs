//! Calls that wait for a person, and the decisions on them.

use neuron_types::{
    ApprovalDecision, ApprovalDecisions, ApprovalError, PendingApproval, PendingCall,
};

use super::{Asked, CallState, Ledger};

impl Ledger {
    /// The calls on which a person decides, or decided before they began.
    pub(crate) fn pending_calls(&self) -> impl Iterator<Item = &PendingCall> {
        let states = self.batch().map_or(&[][..], |batch| &batch.calls);
        states.iter().filter_map(CallState::pending)
    }

    /// The state of the run that waits, as a stored form. `None` if no call waits.
    pub(crate) fn pending(&self) -> Option<PendingApproval> {
        let calls: Vec<PendingCall> = self.pending_calls().cloned().collect();
        if calls.is_empty() {
            return None;
        }
        let mut pending = PendingApproval::new(&*self.tally.run.id, calls);
        pending.run_number = self.tally.run.number;
        pending.turn = self.tally.run.turn;
        pending.turns = self.tally.run.turns;
        pending.requests = self.tally.run.requests;
        pending.tool_calls = self.tally.run.tool_calls;
        pending.usage = self.tally.run.usage.total.clone();
        pending.tool_usage = self.tally.run.usage.tools.clone();
        pending.messages.clone_from(&self.messages);
        Some(pending)
    }

    /// Checks that decisions fit the calls that wait.
    ///
    /// # Errors
    ///
    /// [`ApprovalError`] when they do not.
    pub(crate) fn check_decisions(
        &self,
        decisions: &ApprovalDecisions,
    ) -> Result<(), ApprovalError> {
        let pending: Vec<_> = self.pending_calls().cloned().collect();
        if pending.is_empty() {
            return Err(ApprovalError::NothingPending);
        }
        // Only its calls are looked at.
        PendingApproval::new("", pending).check(decisions)
    }

    /// Takes decisions on calls that wait. Earlier decisions that were not carried out count no more.
    pub(crate) fn decide(&mut self, decisions: &ApprovalDecisions) {
        for asked in self.asked_calls() {
            asked.decision = decisions.get(&asked.pending.call.id).cloned();
        }
    }

    /// Takes the decisions back: the calls wait again. Returns whether there are any.
    pub(crate) fn undecide(&mut self) -> bool {
        self.asked_calls().fold(false, |any, asked| asked.decision.take().is_some() || any)
    }

    /// The calls about which a person is asked.
    fn asked_calls(&mut self) -> impl Iterator<Item = &mut Asked> {
        let states = self.batch_mut().map_or(&mut [][..], |batch| &mut batch.calls);
        states.iter_mut().filter_map(|state| match state {
            CallState::Asked(asked) => Some(&mut **asked),
            _ => None,
        })
    }

    /// The calls that wait for a person, to sign them.
    pub(crate) fn waiting_calls(&mut self) -> impl Iterator<Item = &mut PendingCall> {
        let waiting = self.asked_calls().filter(|asked| asked.decision.is_none());
        waiting.map(|asked| &mut asked.pending)
    }

    /// Number of calls that start when the batch goes on. A call inside which an agent waited was counted before.
    pub(crate) fn count_of_starts(&self) -> usize {
        use ApprovalDecision::{Approve, ApproveEdited};
        let starts = |state: &&CallState| match state {
            CallState::Open => true,
            CallState::Asked(asked) => {
                matches!(asked.decision, Some(Approve | ApproveEdited { .. }))
            }
            _ => false,
        };
        self.batch().map_or(0, |batch| batch.calls.iter().filter(starts).count())
    }
}
