//! The stored forms of a conversation.

use neuron_types::{
    DurableError, KnownEffect, LoopError, Message, PendingCall, RunSnapshot, Session, SessionState,
    StorageError, transcript,
};
use serde_json::Value;

use super::Conversation;
use crate::ledger::Ledger;

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
        match transcript::validate(ledger.messages()) {
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
    let (settled, open) = ledger.messages().split_at_checked(ledger.settled()).unwrap_or_default();
    let mut head = ledger.with_messages(open.to_vec());
    // FAULT a session at rest loses decisions: without `.filter(|_| tools_begin)`
    if let Some((mut calls, _)) = head.open_batch().filter(|_| tools_begin) {
        calls.batch().open_calls().into_iter().for_each(|index| calls.begin(index));
    }
    // FAULT a session has results without a reason while calls run: without the line
    head.explain_missing(None);
    let value = serde_json::to_value(head)?;
    state.custom.insert(SESSION_KEY.to_owned(), value);
    // FAULT a session does not say what it used: without the line
    //     (sessions::total_usage_continues_and_run_usage_starts_at_zero)
    state.token_usage.clone_from(&ledger.tally().total_usage);
    Ok((settled, state))
}

/// Returns the id of a call that has a decision in `ledger`, but does not wait for this decision in the stored `state`.
/// Returns `None` if the calls with a decision all wait there.
pub(crate) fn decided_before(ledger: &Ledger, state: &SessionState) -> Option<String> {
    let decided = ledger.decided_calls();
    decided.first()?;
    let stored = state.custom.get(SESSION_KEY).cloned();
    let stored: Ledger = serde_json::from_value(stored?).ok()?;
    // A pending call of an agent inside the call may have changed, so the whole call is compared. Signatures differ
    // with every store.
    let question = |pending: &PendingCall| {
        let mut question = pending.clone();
        // FAULT a call that was signed again is another: without the line
        //     (store::decision_on_a_copy_is_accepted_after_the_calls_were_signed_again)
        question.signature = None;
        question
    };
    let asked = stored.pending_calls();
    let waits = |decided: &PendingCall| {
        let decided = question(decided);
        asked.iter().any(|stored| question(stored) == decided)
    };
    decided.into_iter().find(|pending| !waits(pending)).map(|pending| pending.call.id)
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
        let total_usage = session.state.token_usage;
        Self { ledger: Ledger::from_session(stored, session.messages, total_usage) }
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
    let mut snapshot = RunSnapshot::new(&*ledger.tally().run.id, Vec::new());
    // FAULT a new execution forgets the effects: `, effects)` -> `, Vec::new())`
    //     (durability::continue_as_new_carries_the_whole_run)
    (snapshot.turns, snapshot.effects) = (ledger.tally().run.turns, effects);
    // `is_paused` is set if the history ends with an assistant message. The model continues such a message, even if the
    // user and not the provider left it incomplete.
    // FAULT a turn that was paused cannot go on in a new execution: `!transcript::is_open(ledger.messages(), false)` ->
    //     `false`
    snapshot.is_paused = !transcript::is_open(ledger.messages(), false);
    snapshot.usage = ledger.tally().run.usage.total.clone();
    snapshot.loop_state = serde_json::to_value(stored).map_err(failed)?;
    let mut snapshot = serde_json::to_value(snapshot).map_err(failed)?;
    // Serialised from the borrowed messages, because a clone would copy the whole history.
    if let Value::Object(fields) = &mut snapshot {
        let messages = serde_json::to_value(&**ledger.messages()).map_err(failed)?;
        fields.insert("messages".to_owned(), messages);
    }
    Ok(snapshot)
}

fn failed(error: serde_json::Error) -> LoopError {
    DurableError::Other(Box::new(error)).into()
}
