//! The states of the tool calls of one response, and the approval decisions on them.

use neuron_types::{
    ApprovalDecision, ApprovalDecisions, ApprovalSignature, Message, PendingApproval, PendingCall,
    StopReason, ToolUseRef,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smallvec::{SmallVec, smallvec};

use super::Ledger;

/// The states of the tool calls of one response. The history has their names and arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) stop_reason: StopReason,
    pub(crate) calls: SmallVec<[CallState; 1]>,
    /// Names of registered tools that the request did not offer, and of called tools that the model had not found. A
    /// call of such a tool does not run. In JSON this field keeps its older name `hidden`.
    #[serde(default, rename = "hidden", skip_serializing_if = "Vec::is_empty")]
    pub(crate) excluded: Vec<String>,
    /// Set if calls of `CALL_TOOL` are calls of the tools that they name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_targets: bool,
    /// Number of earlier responses of the turn that were discarded after some of their calls had started. `None` until
    /// the first call of this batch begins.
    ///
    /// The number is part of the idempotency keys, so a call never has the key of a discarded call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<usize>,
    /// Position of the call that gave the valid output of a typed run. Set until the other calls have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<usize>,
}

/// The state of one tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallState {
    /// The call has not begun.
    #[default]
    Open,
    /// The call needs an approval. It has not begun, even if the decision is already there.
    #[serde(rename = "asked")]
    AwaitingApproval(Box<PendingDecision>),
    /// The call has begun, and its result is not known.
    Begun {
        /// The arguments to run if an approval may have changed them. `None` if the arguments in the history are used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
    },
    /// The call has ended, and its result is in the history.
    Ended {
        is_error: bool,
        /// Set if the tool ran to its end.
        ran: bool,
    },
}

/// A tool call that needs an approval, with the decision once it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PendingDecision {
    pub(crate) pending: PendingCall,
    pub(crate) decision: Option<ApprovalDecision>,
}

/// Iterates over the calls of a response. If `has_targets` is `true`, a call of `CALL_TOOL` is the call of the tool that
/// it names.
pub(super) fn calls_in(
    answer: &Message,
    has_targets: bool,
) -> impl Iterator<Item = ToolUseRef<'_>> + use<'_> {
    answer.tool_uses().map(move |call| if has_targets { call.target() } else { call })
}

impl Batch {
    /// Creates a batch of `calls` tool calls that have not begun.
    pub(crate) fn new(stop_reason: StopReason, calls: usize, excluded: Vec<String>) -> Self {
        Self {
            stop_reason,
            calls: smallvec![CallState::Open; calls],
            excluded,
            has_targets: false,
            attempt: None,
            output: None,
        }
    }

    /// Iterates over the calls of the response, with the tools that run.
    pub(crate) fn calls_in<'l>(
        &self,
        answer: &'l Message,
    ) -> impl Iterator<Item = ToolUseRef<'l>> + use<'l> {
        calls_in(answer, self.has_targets)
    }

    /// Returns `true` if at least one call can begin.
    pub(crate) fn has_work(&self) -> bool {
        self.calls.iter().any(CallState::can_begin)
    }

    /// Returns the positions of the calls that can begin.
    pub(crate) fn open_calls(&self) -> SmallVec<[usize; 4]> {
        let open = self.calls.iter().enumerate().filter(|(_, state)| state.can_begin());
        open.map(|(index, _)| index).collect()
    }

    /// Returns the number of calls that will start for the first time when the batch continues. A call whose nested
    /// agent resumes after an approval has started before and is not counted.
    pub(crate) fn count_of_starts(&self) -> usize {
        use ApprovalDecision::{Approve, ApproveEdited};
        let starts = |state: &&CallState| match state {
            CallState::Open => true,
            CallState::AwaitingApproval(asked) => {
                matches!(asked.decision, Some(Approve | ApproveEdited { .. }))
            }
            // FAULT calls that ended need room once more: `false` -> `true`
            _ => false,
        };
        self.calls.iter().filter(starts).count()
    }

    /// Returns `true` if at least one call waits for an approval.
    pub(crate) fn waits(&self) -> bool {
        self.calls.iter().any(|state| state.asked().is_some() && !state.can_begin())
    }
}

impl CallState {
    /// Returns `true` if the call has not begun and needs no further decision.
    pub(crate) fn can_begin(&self) -> bool {
        match self {
            Self::Open => true,
            Self::AwaitingApproval(asked) => asked.decision.is_some(),
            _ => false,
        }
    }

    /// Returns the pending call, with its decision if there is one, if the call needs an approval and has not begun.
    pub(crate) fn asked(&self) -> Option<&PendingDecision> {
        match self {
            Self::AwaitingApproval(asked) => Some(asked),
            _ => None,
        }
    }

    /// Returns the arguments of a call that needed an approval. The approval may have changed them. Returns `None` for
    /// any other call, whose arguments are in the history.
    pub(crate) fn edited(&self) -> Option<&Value> {
        match self {
            Self::AwaitingApproval(asked) => match &asked.decision {
                // FAULT the arguments that a person changed are ignored: `Some(input)` ->
                //     `Some(&asked.pending.call.input)`
                Some(ApprovalDecision::ApproveEdited { input }) => Some(input),
                _ => Some(&asked.pending.call.input),
            },
            Self::Begun { input } => input.as_ref(),
            Self::Open | Self::Ended { .. } => None,
        }
    }
}

impl Ledger {
    /// Returns the calls that need an approval and have not begun, including calls with a decision.
    pub(crate) fn pending_calls(&self) -> Vec<PendingCall> {
        self.asked().map(|(_, pending)| pending).collect()
    }

    /// Returns the calls that have a decision and have not begun.
    pub(crate) fn decided_calls(&self) -> Vec<PendingCall> {
        let decided = self.asked().filter(|(asked, _)| asked.decision.is_some());
        decided.map(|(_, pending)| pending).collect()
    }

    /// Iterates over the calls that need an approval and have not begun, and their form for others. Only this form has
    /// the approval id, because the place of the call defines it.
    fn asked(&self) -> impl Iterator<Item = (&PendingDecision, PendingCall)> {
        let run = &self.tally.run;
        let states = self.batch().map_or(&[][..], |batch| &batch.calls).iter().enumerate();
        states.filter_map(move |(position, state)| {
            let asked = state.asked()?;
            let pending = asked.pending.clone();
            // FAULT a request for an approval does not name its turn: `run.turn` -> `0`
            // FAULT a request for an approval does not name its position: `position)` -> `0)`
            // FAULT a request for an approval does not name its run: `run.number` -> `0`
            Some((asked, pending.at(&run.id, run.number, run.turn, position)))
        })
    }

    /// Returns the state of the waiting run in its stored form. Returns `None` if no call needs an approval.
    pub(crate) fn pending(&self) -> Option<PendingApproval> {
        let calls = self.pending_calls();
        if calls.is_empty() {
            return None;
        }
        let mut pending = PendingApproval::new(&*self.tally.run.id, calls);
        pending.run_number = self.tally.run.number;
        // FAULT a run that waits names the next turn: `run.turn` -> `run.turns`
        pending.turn = self.tally.run.turn;
        pending.turns = self.tally.run.turns;
        pending.requests = self.tally.run.requests;
        pending.tool_calls = self.tally.run.tool_calls;
        pending.usage = self.tally.run.usage.total.clone();
        pending.tool_usage = self.tally.run.usage.tools.clone();
        pending.messages = self.messages.to_vec();
        Some(pending)
    }

    /// Records decisions on the pending calls. Replaces earlier decisions that were not carried out.
    pub(crate) fn decide(&mut self, decisions: &ApprovalDecisions) {
        let pending = self.pending_calls();
        for (asked, pending) in self.asked_calls().zip(&pending) {
            // FAULT an approval is not needed to go on: `.cloned()` -> `.cloned().or(Some(ApprovalDecision::Approve))`
            asked.decision = decisions.of(pending).cloned();
        }
    }

    /// Removes the decisions of calls that have not begun, so that the calls wait for an approval again. Returns `true`
    /// if a decision was removed.
    pub(crate) fn undecide(&mut self) -> bool {
        self.asked_calls().filter_map(|asked| asked.decision.take()).count() > 0
    }

    /// Iterates over the calls that need an approval and have not begun.
    fn asked_calls(&mut self) -> impl Iterator<Item = &mut PendingDecision> {
        let states = self.batch_mut().map_or(&mut [][..], |batch| &mut batch.calls);
        states.iter_mut().filter_map(|state| match state {
            CallState::AwaitingApproval(asked) => Some(&mut **asked),
            _ => None,
        })
    }

    /// Signs the calls that have no decision yet.
    pub(crate) fn sign_waiting(&mut self, sign: impl Fn(&str, &PendingCall) -> ApprovalSignature) {
        let run_id = self.tally.run.id.clone();
        let pending = self.pending_calls();
        for (asked, pending) in self.asked_calls().zip(&pending) {
            if asked.decision.is_none() {
                asked.pending.signature = Some(sign(&run_id, pending));
            }
        }
    }
}
