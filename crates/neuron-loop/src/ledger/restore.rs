//! Restoring a ledger from its stored forms.

use neuron_types::{
    ApprovalError, CALL_TOOL, DurableError, LoopError, Message, PendingApproval, PendingCall,
    RunSnapshot, StopReason, TokenUsage, transcript,
};

use super::limits::RunUsage;
use super::{Batch, CallState, Ledger, Phase, RunRecord};

impl Ledger {
    /// Returns a new conversation with the first `messages` messages.
    pub(crate) fn fork(&self, messages: usize) -> Self {
        let mut fork = Self::from_messages(self.messages.iter().take(messages).cloned().collect());
        // The runs after the cut already used some run numbers, which are part of the idempotency keys.
        // FAULT a fork counts its runs anew: without the line (agent::calls_of_a_fork_have_their_own_idempotency_keys)
        fork.tally.runs = self.tally.runs;
        fork
    }

    /// Restores the conversation of a session. `stored` is the state that was stored beside `messages`, with the
    /// messages that may still change. If it is missing or does not fit, the messages are repaired, and no run is
    /// active.
    pub(crate) fn from_session(
        stored: Option<Self>,
        mut messages: Vec<Message>,
        total_usage: TokenUsage,
    ) -> Self {
        let (settled, mut runs) = (messages.len(), 0);
        if let Some(mut ledger) = stored {
            messages.extend_from_slice(&ledger.messages);
            if transcript::validate(&messages).is_ok() {
                ledger.messages = messages.into();
                return ledger;
            }
            messages.truncate(settled);
            runs = ledger.tally.runs;
        }
        let mut ledger = Self::from_messages(messages);
        // FAULT a damaged session forgets what it used: `(runs, total_usage)` -> `(runs,
        //     TokenUsage::default())`
        //     (stored_forms::session_of_version_1_is_resumed)
        (ledger.tally.runs, ledger.tally.total_usage) = (runs, total_usage);
        ledger
    }

    /// Restores the conversation of a run that a durable engine continues in a new execution.
    pub(crate) fn from_snapshot(snapshot: RunSnapshot) -> Result<Self, LoopError> {
        snapshot.check_version()?;
        transcript::validate(&snapshot.messages)
            .map_err(|violation| damaged(&violation.to_string()))?;
        if !transcript::is_open(&snapshot.messages, snapshot.is_paused) {
            return Err(damaged("there is nothing for the model to answer"));
        }
        if snapshot.loop_state.is_null() {
            return Ok(Self::from_bare_snapshot(snapshot));
        }
        match serde_json::from_value(snapshot.loop_state) {
            Ok(ledger) => Ok(Self { messages: snapshot.messages.into(), ..ledger }),
            Err(error) => Err(damaged(&error.to_string())),
        }
    }

    /// Restores a snapshot without the state of a loop, which was made by hand.
    fn from_bare_snapshot(snapshot: RunSnapshot) -> Self {
        let RunSnapshot { run_id: id, messages, usage, turns, .. } = snapshot;
        let mut ledger =
            Self { messages: messages.into(), phase: Phase::TurnStart, ..Self::default() };
        (ledger.tally.runs, ledger.tally.total_usage) = (1, usage.clone());
        let usage = RunUsage { total: usage, ..RunUsage::default() };
        ledger.tally.run = RunRecord { id, turn: turns, turns, usage, ..RunRecord::default() };
        ledger
    }

    /// Restores the conversation of a run that waits for an approval.
    pub(crate) fn from_pending(pending: PendingApproval) -> Result<Self, ApprovalError> {
        // FAULT a state without its results is resumed: without the line
        pending.check_whole()?;
        let mut ledger = Self { messages: pending.messages.into(), ..Self::default() };
        // FAULT a restored conversation counts the next run like the last: without `.saturating_add(1)`
        ledger.tally.runs = pending.run_number.saturating_add(1);
        ledger.tally.run = RunRecord {
            id: pending.run_id,
            number: pending.run_number,
            // FAULT a restored run stands in its first turn: without the line
            turn: pending.turn,
            // FAULT a restored run has had no turn: without the line
            turns: pending.turns,
            requests: pending.requests,
            // FAULT a restored run has called no tool: without the line
            tool_calls: pending.tool_calls,
            usage: RunUsage {
                // FAULT a restored run has used nothing: without the line
                total: pending.usage,
                // FAULT a restored run forgets what its tools took: without the line
                tools: pending.tool_usage,
                ..RunUsage::default()
            },
            ..RunRecord::default()
        };
        let state = |id: &str| {
            let waits = pending.calls.iter().find(|waiting| waiting.call.id == id);
            match waits.cloned() {
                Some(mut pending) => {
                    // The place of the call defines the id.
                    pending.approval_id.clear();
                    CallState::awaiting(pending)
                }
                // FAULT a result is lost while the run waits, and its call runs again: `Ended { is_error: false, ran:
                //     false }` -> `Open`
                None => CallState::Ended { is_error: false, ran: false },
            }
        };
        let calls: Vec<CallState> = ledger.last_calls().map(|call| state(call.id)).collect();
        let mut batch = Batch::new(StopReason::ToolUse, 0, Vec::new());
        // The history has the call as the model wrote it, and the pending call has the tool that runs.
        batch.has_targets = ledger.last_calls().filter(|call| call.name == CALL_TOOL).any(|call| {
            let waits = |waiting: &PendingCall| {
                waiting.call.id == call.id && waiting.call.name == call.target().name
            };
            // FAULT a resumed approval runs call_tool: `!=` -> `==`
            //     (deferred_tools::stored_approval_runs_the_tool_in_another_process)
            call.target() != call && pending.calls.iter().any(waits)
        });
        batch.calls = calls.into();
        ledger.phase = Phase::Batch(batch);
        Ok(ledger)
    }
}

fn damaged(why: &str) -> LoopError {
    DurableError::Other(format!("the run cannot continue from its snapshot: {why}").into()).into()
}
