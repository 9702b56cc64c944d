//! Calls that wait for a person, and the decisions on them.

use neuron_types::{
    ApprovalDecision, ApprovalDecisions, ApprovalError, PendingApproval, PendingCall,
};

use super::{CallState, Ledger};

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
        let mut pending = PendingApproval::new(&*self.run.id, calls);
        pending.run_number = self.run.number;
        pending.turn = self.run.turn;
        pending.turns = self.run.turns;
        pending.requests = self.run.requests;
        pending.tool_calls = self.run.tool_calls;
        pending.usage = self.run.usage.total.clone();
        pending.tool_usage = self.run.usage.tools.clone();
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
        self.undecide();
        let Some(batch) = self.batch_mut() else {
            return;
        };
        for state in &mut batch.calls {
            let Some(pending) = state.pending() else {
                continue;
            };
            if let Some(decision) = decisions.get(&pending.call.id) {
                *state = CallState::Decided(Box::new((pending.clone(), decision.clone())));
            }
        }
    }

    /// The calls that wait for a person, to sign them.
    pub(crate) fn waiting_calls(&mut self) -> impl Iterator<Item = &mut PendingCall> {
        let states = self.batch_mut().map_or(&mut [][..], |batch| &mut batch.calls);
        states.iter_mut().filter_map(|state| match state {
            CallState::Waiting(pending) => Some(&mut **pending),
            _ => None,
        })
    }

    /// Takes the decisions back: the calls wait again.
    pub(crate) fn undecide(&mut self) {
        for state in self.batch_mut().map_or(&mut [][..], |batch| &mut batch.calls) {
            if let CallState::Decided(decided) = state {
                *state = CallState::Waiting(Box::new(decided.0.clone()));
            }
        }
    }

    /// Number of calls that start when the batch goes on. A call inside which an agent waited was counted before.
    pub(crate) fn count_of_starts(&self) -> usize {
        let starts = |state: &&CallState| match state {
            CallState::Open => true,
            CallState::Decided(decided) => {
                use ApprovalDecision::{Approve, ApproveEdited};
                matches!(decided.1, Approve | ApproveEdited { .. })
            }
            _ => false,
        };
        self.batch().map_or(0, |batch| batch.calls.iter().filter(starts).count())
    }
}
