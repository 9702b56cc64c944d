//! A run that waits for a person: its state, and how it goes on.

use neuron_tool::ToolRegistry;
#[cfg(feature = "signed-approvals")]
use neuron_types::DurableContext;
use neuron_types::{
    ApprovalDecision, ApprovalDecisions, ApprovalError, Message, PendingApproval, PendingCall,
    ToolCall, transcript,
};

#[cfg(feature = "signed-approvals")]
use crate::AgentLoop;
use crate::permits::{Permit, Permits};
use crate::run_state::RunState;
use crate::tool_results::{ToolResults, place_of_results};

/// The calls that waited, with what was decided on them.
pub(crate) struct Decided {
    pub(crate) calls: Vec<PendingCall>,
    pub(crate) decisions: ApprovalDecisions,
    /// All calls of the answer, as the model made them.
    pub(crate) made: Vec<ToolCall>,
}

impl Decided {
    /// The calls as they run: with the arguments that a person changed, now or before an agent inside
    /// the call had to wait.
    pub(crate) fn edited(&self) -> Vec<ToolCall> {
        let mut calls = self.made.clone();
        for call in &mut calls {
            let pending = self.calls.iter().find(|pending| pending.call.id == call.id);
            let decision = self.decisions.get(&call.id);
            if let Some(ApprovalDecision::ApproveEdited { input }) = decision {
                call.input = input.clone();
            } else if let Some(pending) = pending {
                call.input = pending.call.input.clone();
            }
        }
        calls
    }

    /// What is to happen with each call; the model is told of changed arguments.
    pub(crate) fn permits(
        &self,
        calls: &[ToolCall],
        permits: &Permits<'_>,
        results: &mut ToolResults<'_>,
    ) -> Vec<Permit> {
        let permit = |(index, (call, made)): (usize, (&ToolCall, &ToolCall))| {
            let pending = self.calls.iter().find(|pending| pending.call.id == call.id);
            // It has its result.
            let Some(pending) = pending else { return Permit::Run };
            if call.input != made.input {
                let input = &call.input;
                results.note(index, format!("[approved with other arguments: {input}]"));
            }
            permits.of_decision(call, pending, self.decisions.get(&call.id))
        };
        calls.iter().zip(&self.made).enumerate().map(permit).collect()
    }
}

/// How many calls start with these decisions. One in which an agent waits was counted when it began.
pub(crate) fn count_of_starts(pending: &[PendingCall], decisions: &ApprovalDecisions) -> usize {
    let starts = |pending: &&PendingCall| {
        use ApprovalDecision::{Approve, ApproveEdited};
        matches!(decisions.get(&pending.call.id), Some(Approve | ApproveEdited { .. }))
    };
    pending.iter().filter(starts).count()
}

/// Checks that decisions fit the calls that wait, and that changed arguments are what the tools take.
pub(crate) fn check(
    pending: &PendingApproval,
    decisions: &ApprovalDecisions,
    tools: &ToolRegistry,
) -> Result<(), ApprovalError> {
    pending.check(decisions)?;
    for PendingCall { call, .. } in &pending.calls {
        let edit = decisions.get(&call.id);
        let (Some(ApprovalDecision::ApproveEdited { input }), Some(tool)) =
            (edit, tools.get(&call.name))
        else {
            continue;
        };
        tool.check_input(input).map_err(|error| ApprovalError::InvalidInput {
            id: call.id.clone(),
            reason: error.to_string(),
        })?;
    }
    Ok(())
}

/// The state of a run that waits, without its conversation.
pub(crate) fn waiting(run: &RunState, calls: Vec<PendingCall>) -> PendingApproval {
    let mut pending = PendingApproval::new(&*run.id, calls);
    pending.run_number = run.number;
    pending.turn = run.turn;
    pending.turns = run.turns;
    pending.requests = run.requests;
    pending.tool_calls = run.tool_calls;
    pending.usage = run.usage.clone();
    pending.tool_usage = run.tool_usage.clone();
    pending
}

/// The run that waited, as it was.
pub(crate) fn restored(pending: &PendingApproval) -> RunState {
    RunState {
        id: pending.run_id.clone(),
        number: pending.run_number,
        turn: pending.turn,
        turns: pending.turns,
        requests: pending.requests,
        tool_calls: pending.tool_calls,
        tool_usage: pending.tool_usage.clone(),
        usage: pending.usage.clone(),
        ..RunState::default()
    }
}

/// Checks that a stored state fits together.
pub(crate) fn check_whole(pending: &PendingApproval) -> Result<(), ApprovalError> {
    pending.check_version()?;
    let malformed = |reason: String| ApprovalError::Malformed { reason };
    if pending.calls.is_empty() {
        return Err(malformed("no call is pending".into()));
    }
    transcript::validate(&pending.messages)
        .map_err(|violation| malformed(violation.to_string()))?;
    let calls = last_calls(&pending.messages);
    for PendingCall { call, nested, .. } in &pending.calls {
        // The arguments of a call that began may have been changed by a person.
        let is_made = |made: &ToolCall| {
            (&made.id, &made.name) == (&call.id, &call.name)
                && (nested.is_some() || made.input == call.input)
        };
        if !calls.iter().any(is_made) {
            let text = format!("the last answer did not make the call `{}`", call.id);
            return Err(malformed(text));
        }
    }
    Ok(())
}

/// The calls of the last answer, if their results follow it.
pub(crate) fn last_calls(messages: &[Message]) -> Vec<ToolCall> {
    let answer = place_of_results(messages).and_then(|place| place.checked_sub(1));
    answer.and_then(|index| messages.get(index)).map(calls_of).unwrap_or_default()
}

/// The calls that an answer makes.
pub(crate) fn calls_of(answer: &Message) -> Vec<ToolCall> {
    let calls = answer.tool_uses().map(|call| ToolCall {
        id: call.id.to_owned(),
        name: call.name.to_owned(),
        input: call.input.clone(),
    });
    calls.collect()
}

#[cfg(feature = "signed-approvals")]
impl<P, C, D: DurableContext> AgentLoop<P, C, D> {
    /// Signs calls that are about to wait, if the agent has a key.
    pub(crate) fn signed(&self, mut calls: Vec<PendingCall>) -> Vec<PendingCall> {
        if let Some(key) = &self.approval_key {
            key.sign(&self.run.id, &mut calls, &self.tools, || self.now());
        }
        calls
    }

    /// Checks the signatures of calls that are to be decided on, if the agent has a key.
    pub(crate) fn check_signatures(&self, pending: &PendingApproval) -> Result<(), ApprovalError> {
        match &self.approval_key {
            Some(key) => key.verify(&pending.run_id, &pending.calls, &self.tools, || self.now()),
            None => Ok(()),
        }
    }

    fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.durability.as_ref().map_or_else(chrono::Utc::now, DurableContext::now)
    }
}
