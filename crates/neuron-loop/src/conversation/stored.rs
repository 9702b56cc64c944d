//! The stored forms of a conversation.

use neuron_types::{
    ApprovalError, CALL_TOOL, DurableError, KnownEffect, LoopError, Message, PendingApproval,
    PendingCall, RunSnapshot, Session, SessionState, StopReason, StorageError, TokenUsage,
    transcript,
};
use serde::Deserialize;
use serde_json::Value;

use super::Conversation;
use crate::ledger::{
    Batch, CallState, CompactionBackoff, KnownSize, Ledger, PendingDecision, Phase, Reminders,
    RunRecord, RunUsage, Tally, Version,
};

/// Key of the conversation in [`SessionState::custom`].
const SESSION_KEY: &str = "neuron.conversation";

impl From<Conversation> for Ledger {
    fn from(conversation: Conversation) -> Self {
        conversation.ledger
    }
}

/// Accepts a stored conversation only if its history is valid.
impl TryFrom<Ledger> for Conversation {
    type Error = String;

    fn try_from(ledger: Ledger) -> Result<Self, String> {
        match transcript::validate(&ledger.messages) {
            Ok(()) => Ok(Self { ledger }),
            Err(violation) => Err(format!("the conversation is damaged: {violation}")),
        }
    }
}

/// Splits a conversation into messages that will not change any more, and the new state of its session. The state
/// contains everything else.
///
/// If `tools_begin` is set, calls that can begin are stored as begun. Set it if they may begin before the session is
/// stored again.
pub(crate) fn session_parts(
    ledger: &Ledger,
    mut state: SessionState,
    tools_begin: bool,
) -> Result<(&[Message], SessionState), StorageError> {
    let (settled, open) = ledger.messages.split_at_checked(ledger.settled()).unwrap_or_default();
    let mut head = ledger.with_messages(open.to_vec());
    // FAULT a session at rest loses decisions: without `.filter(|_| tools_begin)`
    if let Some((mut calls, _)) = head.open().filter(|_| tools_begin) {
        calls.batch.open_calls().into_iter().for_each(|index| calls.begin(index));
    }
    // FAULT a session has results without a reason while calls run: without the line
    head.explain_missing(None);
    let value = serde_json::to_value(head)?;
    state.custom.insert(SESSION_KEY.to_owned(), value);
    state.token_usage.clone_from(&ledger.tally.total_usage);
    Ok((settled, state))
}

/// Returns `true` if two states of a session have the same state of the conversation.
pub(crate) fn is_same_state(a: &SessionState, b: &SessionState) -> bool {
    a.custom.get(SESSION_KEY) == b.custom.get(SESSION_KEY)
}

/// Returns the id of a call that has a decision in `ledger`, but does not wait for this decision in the stored `state`.
/// Returns `None` if the calls with a decision all wait there.
pub(crate) fn decided_before(ledger: &Ledger, state: &SessionState) -> Option<String> {
    let mut decided = ledger.decided_calls().peekable();
    decided.peek()?;
    let stored = state.custom.get(SESSION_KEY).cloned();
    let stored: Ledger = serde_json::from_value(stored?).ok()?;
    let place = |ledger: &Ledger| {
        let run = &ledger.tally.run;
        (run.id.clone(), run.number, run.turn)
    };
    let is_there = place(&stored) == place(ledger);
    // A pending call of an agent inside the call may have changed, so the whole call is compared. Signatures differ
    // with every store.
    let question = |pending: &PendingCall| {
        let mut question = pending.clone();
        question.signature = None;
        question
    };
    let waits = |decided: &PendingCall| {
        let decided = question(decided);
        // FAULT a decision of another turn fits: without `is_there &&`
        //     (store::pending_approval_of_an_earlier_call_is_rejected)
        is_there && stored.pending_calls().any(|stored| question(stored) == decided)
    };
    decided.find(|pending| !waits(pending)).map(|pending| pending.call.id.clone())
}

impl Conversation {
    /// Restores the conversation of a session, including the state of an interrupted run.
    ///
    /// If this state is missing or does not fit the session's messages, the messages are repaired. The next run is then
    /// a new run.
    #[must_use]
    pub fn from_session(mut session: Session) -> Self {
        let stored = session.state.custom.remove(SESSION_KEY);
        let stored = stored.and_then(|value| serde_json::from_value::<Ledger>(value).ok());
        let (settled, mut runs) = (session.messages.len(), 0);
        if let Some(mut ledger) = stored {
            session.messages.extend(Vec::from(std::mem::take(&mut ledger.messages)));
            if transcript::validate(&session.messages).is_ok() {
                ledger.messages = session.messages.into();
                return Self { ledger };
            }
            session.messages.truncate(settled);
            runs = ledger.tally.runs;
        }
        let mut ledger = Ledger::from_messages(session.messages);
        // FAULT a damaged session forgets what it used: `session.state.token_usage` -> `TokenUsage::default()`
        //     (stored_forms::session_of_version_1_is_resumed)
        (ledger.tally.runs, ledger.tally.total_usage) = (runs, session.state.token_usage);
        Self { ledger }
    }

    /// Writes the conversation into a session and marks the session as changed. All other values of the session are
    /// kept.
    ///
    /// # Errors
    ///
    /// [`StorageError`] if a value cannot be serialised as JSON.
    pub fn write_session(&self, session: &mut Session) -> Result<(), StorageError> {
        let state = std::mem::take(&mut session.state);
        let (settled, state) = session_parts(&self.ledger, state, false)?;
        // After an earlier write, most of the messages are already in the session.
        let pairs = session.messages.iter().zip(settled);
        let kept = pairs.take_while(|(stored, settled)| stored == settled).count();
        // FAULT a rewritten history is written behind its former one: without the line
        //     (sessions::write_session_keeps_values_of_the_user)
        session.messages.truncate(kept);
        session.messages.extend_from_slice(settled.get(kept..).unwrap_or_default());
        session.state = state;
        session.touch();
        Ok(())
    }
}

/// Returns the state of a run between two turns as a [`RunSnapshot`] in JSON. A durable engine stores it.
pub(crate) fn snapshot(ledger: &Ledger, effects: Vec<KnownEffect>) -> Result<Value, LoopError> {
    let stored = ledger.with_messages(Vec::new());
    let mut snapshot = RunSnapshot::new(&*ledger.tally.run.id, Vec::new());
    // FAULT a new execution forgets the effects: `, effects)` -> `, Vec::new())`
    //     (durability::continue_as_new_carries_the_whole_run)
    (snapshot.turns, snapshot.effects) = (ledger.tally.run.turns, effects);
    // `is_paused` is set if the history ends with an assistant message. The model continues such a message, even if the
    // user and not the provider left it incomplete.
    // FAULT a turn that was paused cannot go on in a new execution: `!transcript::is_open(&ledger.messages, false)` ->
    //     `false`
    snapshot.is_paused = !transcript::is_open(&ledger.messages, false);
    snapshot.usage = ledger.tally.run.usage.total.clone();
    snapshot.loop_state = serde_json::to_value(stored).map_err(failed)?;
    let mut snapshot = serde_json::to_value(snapshot).map_err(failed)?;
    // Serialised from the borrowed messages, because a clone would copy the whole history.
    if let Value::Object(fields) = &mut snapshot {
        let messages = serde_json::to_value(&*ledger.messages).map_err(failed)?;
        fields.insert("messages".to_owned(), messages);
    }
    Ok(snapshot)
}

/// State that the loop reads from a snapshot of version 1, or from one made by hand.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoopState {
    /// Tokens of all runs. Without it, the tokens of this run are used.
    total_usage: Option<TokenUsage>,
    size: Option<KnownSize>,
    context_budget: CompactionBackoff,
    overflowed: bool,
    passed_messages: usize,
    /// Positions of the system messages that the loop added as reminders.
    reminders: Vec<usize>,
    all_turns: usize,
    output_attempts: usize,
}

/// Restores the conversation of a run that a durable engine continues in a new execution.
pub(crate) fn from_snapshot(snapshot: RunSnapshot) -> Result<Ledger, LoopError> {
    snapshot.check_version()?;
    transcript::validate(&snapshot.messages)
        .map_err(|violation| damaged(&violation.to_string()))?;
    if !transcript::is_open(&snapshot.messages, snapshot.is_paused) {
        return Err(damaged("there is nothing for the model to answer"));
    }
    if snapshot.loop_state.get("phase").is_none() {
        return from_first_snapshot(snapshot);
    }
    match serde_json::from_value(snapshot.loop_state) {
        Ok(ledger) => Ok(Ledger { messages: snapshot.messages.into(), ..ledger }),
        Err(error) => Err(damaged(&error.to_string())),
    }
}

/// Reads a snapshot of version 1.
fn from_first_snapshot(snapshot: RunSnapshot) -> Result<Ledger, LoopError> {
    let state = match snapshot.loop_state {
        Value::Null => LoopState::default(),
        state => serde_json::from_value(state).map_err(|error| damaged(&error.to_string()))?,
    };
    let reminders = state.reminders.iter().filter_map(|&place| snapshot.messages.get(place));
    Ok(Ledger {
        version: Version,
        reminders: Reminders::new(reminders.map(Message::text)),
        phase: Phase::TurnStart,
        size: state.size,
        compaction: state.context_budget,
        tally: Tally {
            runs: snapshot.run_number.saturating_add(1),
            turns: state.all_turns,
            total_usage: state.total_usage.unwrap_or_else(|| snapshot.usage.clone()),
            passed_messages: state.passed_messages.min(snapshot.messages.len()),
            run: RunRecord {
                id: snapshot.run_id,
                number: snapshot.run_number,
                turn: snapshot.turns,
                turns: snapshot.turns,
                requests: snapshot.requests,
                tool_calls: snapshot.tool_calls,
                usage: RunUsage {
                    total: snapshot.usage,
                    tools: snapshot.tool_usage,
                    estimated: snapshot.estimated_usage,
                },
                failing: snapshot.failing_turns,
                pauses: snapshot.pauses,
                output_attempts: state.output_attempts,
                overflowed: state.overflowed,
                ..RunRecord::default()
            },
        },
        messages: snapshot.messages.into(),
    })
}

/// Restores the conversation of a run that waits for an approval.
pub(crate) fn from_pending(pending: PendingApproval) -> Result<Ledger, ApprovalError> {
    pending.check_whole()?;
    let mut ledger = Ledger { messages: pending.messages.into(), ..Ledger::default() };
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
        // FAULT a restored run has used nothing: without `total: pending.usage,`
        // FAULT a restored run forgets what its tools took: without `tools: pending.tool_usage,`
        usage: RunUsage { total: pending.usage, tools: pending.tool_usage, ..RunUsage::default() },
        ..RunRecord::default()
    };
    let state = |id: &str| {
        let waits = pending.calls.iter().find(|waiting| waiting.call.id == id);
        match waits {
            Some(waiting) => CallState::AwaitingApproval(Box::new(PendingDecision {
                pending: waiting.clone(),
                decision: None,
            })),
            // FAULT a result is lost while the run waits, and its call runs again: `Ended { is_error: false, ran: false
            //     }` -> `Open`
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

fn failed(error: serde_json::Error) -> LoopError {
    DurableError::Other(Box::new(error)).into()
}

fn damaged(why: &str) -> LoopError {
    DurableError::Other(format!("the run cannot continue from its snapshot: {why}").into()).into()
}
