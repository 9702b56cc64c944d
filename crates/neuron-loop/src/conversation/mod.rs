//! A conversation as a value, and its stored forms.

mod session;

use neuron_types::{
    ApprovalError, DurableError, KnownEffect, LoopError, Message, PendingApproval, PendingCall,
    RunSnapshot, Session, SessionState, StorageError, TokenUsage, transcript,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use session::SessionHandle;

pub(crate) use session::random_id;

use crate::ledger::Ledger;

/// Key of the conversation in [`SessionState::custom`].
const SESSION_KEY: &str = "neuron.conversation";

/// A conversation. It contains the messages, the pending calls, the usage counters, and the state of the current run.
///
/// The history is always valid, so providers accept it even after an error, a cancellation or a drop. A conversation
/// can be cloned. It can be stored with `serde` or as a [`Session`](neuron_types::Session).
///
/// # Example: two answers to one question
///
/// ```
/// # use neuron_loop::{Agent, Conversation, LoopError};
/// # async fn compare(cautious: Agent, bold: Agent) -> Result<(), LoopError> {
/// let mut chat = Conversation::new();
/// cautious.run(&mut chat, "Collect the facts").await?;
/// let mut other = chat.fork(chat.messages().len());
/// cautious.run(&mut chat, "And now?").await?;
/// bold.run(&mut other, "And now?").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Ledger", into = "Ledger")]
pub struct Conversation {
    pub(crate) ledger: Ledger,
}

impl Conversation {
    /// Creates an empty conversation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the messages of the conversation, oldest first.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        self.ledger.messages()
    }

    /// Adds a message to the end of the conversation. A run with [`Start::Continue`](neuron_types::Start::Continue)
    /// answers it.
    pub fn push(&mut self, message: impl Into<Message>) {
        self.ledger.push(message.into());
    }

    /// Returns the tokens of all runs of the conversation.
    #[must_use]
    pub fn total_usage(&self) -> &TokenUsage {
        &self.ledger.tally().total_usage
    }

    /// Returns the tokens of the last run, including the tokens of its tools.
    #[must_use]
    pub fn usage(&self) -> &TokenUsage {
        &self.ledger.tally().run.usage.total
    }

    /// Returns the part of [`usage`](Self::usage) that the tools of the run used.
    #[must_use]
    pub fn tool_usage(&self) -> &TokenUsage {
        &self.ledger.tally().run.usage.tools
    }

    /// Returns the part of [`usage`](Self::usage) that is an estimate, because the provider did not report it.
    #[must_use]
    pub fn estimated_usage(&self) -> &TokenUsage {
        &self.ledger.tally().run.usage.estimated
    }

    /// Returns the number of model calls in the last run that returned a response.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.ledger.tally().run.turns
    }

    /// Returns the tool calls that wait for an approval, with the state of their run. Returns `None` if no call waits.
    ///
    /// To resume the run with decisions, start it with [`Start::Decide`](neuron_types::Start::Decide).
    #[must_use]
    pub fn pending(&self) -> Option<PendingApproval> {
        self.ledger.pending()
    }

    /// Returns a new conversation with the first `messages` messages of this conversation. Any agent can continue it.
    ///
    /// Tool calls whose results are not among these messages get a result that says that they were interrupted.
    #[must_use]
    pub fn fork(&self, messages: usize) -> Self {
        Self { ledger: self.ledger.fork(messages) }
    }

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

/// Restores the conversation of a run that waits for an approval.
impl TryFrom<PendingApproval> for Conversation {
    type Error = ApprovalError;

    fn try_from(pending: PendingApproval) -> Result<Self, ApprovalError> {
        Ok(Self { ledger: Ledger::from_pending(pending)? })
    }
}

/// Starts from an earlier history. The history is repaired if providers would reject it.
impl From<Vec<Message>> for Conversation {
    fn from(messages: Vec<Message>) -> Self {
        Self { ledger: Ledger::from_messages(messages) }
    }
}

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
