//! The states of the calls of an answer, and the decisions of a person on them.

use neuron_types::{ApprovalDecision, ApprovalDecisions, PendingApproval, PendingCall, StopReason};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smallvec::{SmallVec, smallvec};

use super::Ledger;

/// The tool calls of one answer. Names and arguments stand in the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) stop_reason: StopReason,
    pub(crate) calls: SmallVec<[CallState; 1]>,
    /// Names of tools that the answer could not call, because the request did not offer them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hidden: Vec<String>,
    /// The number in the idempotency keys of its calls, once it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<usize>,
    /// The call with a valid output of a typed run, until the other calls have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<usize>,
}

/// The state of one call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallState {
    /// It has not begun.
    #[default]
    Open,
    /// A person is asked. With a decision it has not begun.
    Asked(Box<Asked>),
    /// It began, and its result is not known.
    Begun {
        /// The arguments, where a person changed them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
    },
    /// Its result stands in the history.
    Ended {
        is_error: bool,
        /// True if it ran to its result.
        ran: bool,
    },
}

/// A call about which a person is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) pending: PendingCall,
    pub(crate) decision: Option<ApprovalDecision>,
}

impl Batch {
    pub(crate) fn new(stop_reason: StopReason, calls: usize, hidden: Vec<String>) -> Self {
        Self {
            stop_reason,
            calls: smallvec![CallState::Open; calls],
            hidden,
            attempt: None,
            output: None,
        }
    }

    /// Returns whether a call can begin.
    pub(crate) fn has_work(&self) -> bool {
        self.calls.iter().any(CallState::can_begin)
    }

    /// The calls that can begin, by position.
    pub(crate) fn open_calls(&self) -> SmallVec<[usize; 4]> {
        let open = self.calls.iter().enumerate().filter(|(_, state)| state.can_begin());
        open.map(|(index, _)| index).collect()
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
        self.calls.iter().filter(starts).count()
    }

    /// Returns whether a call waits for a person.
    pub(crate) fn waits(&self) -> bool {
        self.calls.iter().any(|state| state.pending().is_some() && !state.can_begin())
    }
}

impl CallState {
    pub(crate) fn can_begin(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Asked(asked) => asked.decision.is_some(),
            _ => false,
        }
    }

    /// The question about a call that has not begun.
    pub(crate) fn pending(&self) -> Option<&PendingCall> {
        match self {
            Self::Asked(asked) => Some(&asked.pending),
            _ => None,
        }
    }

    /// The arguments, where a person changed them.
    pub(crate) fn edited(&self) -> Option<&Value> {
        match self {
            Self::Asked(asked) => match &asked.decision {
                Some(ApprovalDecision::ApproveEdited { input }) => Some(input),
                _ => Some(&asked.pending.call.input),
            },
            Self::Begun { input } => input.as_ref(),
            Self::Open | Self::Ended { .. } => None,
        }
    }
}

impl Ledger {
    /// The calls on which a person decides, or decided before they began.
    pub(crate) fn pending_calls(&self) -> impl Iterator<Item = &PendingCall> {
        let states = self.batch().map_or(&[][..], |batch| &batch.calls);
        states.iter().filter_map(CallState::pending)
    }

    /// The calls on which a person decided and that have not begun.
    pub(crate) fn decided_calls(&self) -> impl Iterator<Item = &PendingCall> {
        let states = self.batch().map_or(&[][..], |batch| &batch.calls);
        states.iter().filter_map(|state| match state {
            CallState::Asked(asked) if asked.decision.is_some() => Some(&asked.pending),
            _ => None,
        })
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

    /// Takes decisions on calls that wait. Earlier decisions that were not carried out count no more.
    pub(crate) fn decide(&mut self, decisions: &ApprovalDecisions) {
        for asked in self.asked_calls() {
            asked.decision = decisions.get(&asked.pending.call.id).cloned();
        }
    }

    /// Takes the decisions back, so that the calls wait again. Returns whether there are any.
    pub(crate) fn undecide(&mut self) -> bool {
        self.asked_calls().filter_map(|asked| asked.decision.take()).count() > 0
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
}
