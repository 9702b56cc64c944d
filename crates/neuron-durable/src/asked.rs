//! Summaries of model requests in a journal. A replay compares them with the agent's requests to detect a changed
//! agent.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use neuron_types::{DurableError, HistoryKey, Message, RequestRef};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::{self, Hasher};

mod difference;

/// Summary of a model request, which the journal stores beside the response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Asked {
    /// Number of messages in the request.
    pub messages: usize,
    /// Digest of all messages of the request.
    pub conversation: String,
    /// Digest of the request's settings, which are all of its fields except the messages. The
    /// [deferred tools](RequestRef::deferred_tools) do not count.
    pub settings: String,
    /// The request's settings as JSON texts, by field name. A field of a tool has the name `tools.TOOL.FIELD`. Texts of
    /// more than 4096 bytes are cut, and the field `extra` is stored as a digest.
    ///
    /// Empty if an earlier call in the journal has the same settings, or if the journal entry would otherwise be too
    /// long.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
}

impl Asked {
    /// Returns a copy with empty [`fields`](Asked::fields), to shorten the journal entry.
    pub(crate) fn without_fields(&self) -> Self {
        Self { fields: BTreeMap::new(), ..self.clone() }
    }
}

/// Decides how a replayed run handles a model request that differs from the journal. A request differs if the agent's
/// prompt, tools or model changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ChangedAgent {
    /// The run stops with [`DurableError::NonDeterminism`]. The error names up to eight changed fields, with
    /// excerpts of the old and the new values. The run can continue if the agent is changed back or if
    /// [`GoOn`](Self::GoOn) is set.
    ///
    /// A changed default model of a provider is not detected, because it is not part of the request.
    #[default]
    Refuse,
    /// The run continues. Responses in the journal are used even if they answer a different request. The changed agent
    /// makes the calls after the end of the journal. A log line at level `WARN` names the changed fields.
    ///
    /// The changed agent must still make the calls in the journal, in the same order.
    GoOn,
}

/// Creates a summary ([`Asked`]) of each model request of a run, and compares it with the journal.
///
/// Only messages that are new since the previous call are hashed, so a call's cost does not depend on the length of the
/// conversation. This requires the [key](RequestRef::history_key) of the conversation, which the agent loop sets.
/// Without the key all messages are hashed.
#[derive(Debug, Default)]
pub struct RequestLog {
    changed_agent: ChangedAgent,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Hash state of the conversation after the previous call. `None` before the first call.
    conversation: Option<Conversation>,
    /// The fields of all settings in the journal, by the digest of the settings.
    known: BTreeMap<String, BTreeMap<String, String>>,
    /// The difference that was logged last. It consists of the digests of the settings in the journal and in the
    /// agent's request. It is not logged again while the digests stay the same.
    warned: Option<(String, String)>,
}

/// Unfinished hash of a conversation, to which the next call adds its new messages.
struct Conversation {
    key: HistoryKey,
    messages: usize,
    hash: Sha256,
}

impl RequestLog {
    /// Creates an empty log for a run that starts at the beginning of its journal.
    #[must_use]
    pub fn new(changed_agent: ChangedAgent) -> Self {
        Self { changed_agent, state: Mutex::default() }
    }

    /// Removes all requests from the log. Call it before the journal is replayed from its start or a new journal
    /// begins.
    pub fn restart(&self) {
        *self.state() = State::default();
    }

    /// Returns the summary of the next call's request. Its [`fields`](Asked::fields) are empty if the journal already
    /// contains these settings.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if the request cannot be serialised as JSON.
    pub fn ask(&self, request: RequestRef<'_>) -> Result<Asked, DurableError> {
        // A vendor's search reads the deferred tools, as `search_tools` does. A run may replay after they changed.
        let tools = request.tools_without_deferred();
        let settings = RequestRef { messages: &[], tools: &tools, ..request };
        let mut state = self.state();
        let conversation = state.conversation_digest(request)?;
        let digest = digest::of(&settings)?;
        let fields = match state.known.contains_key(&digest) {
            true => BTreeMap::new(),
            false => difference::fields(settings)?,
        };
        let messages = request.messages.len();
        Ok(Asked { messages, conversation, settings: digest, fields })
    }

    /// Remembers the settings of a call that was stored in the journal, so that later calls can leave them out.
    pub fn keep(&self, asked: &Asked) {
        self.state().keep(asked);
    }

    /// Compares a request with the request that the journal contains for the same call. Then [keeps](Self::keep) the
    /// recorded request. `key` is the name of the journal entry in errors.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if the requests differ and [`ChangedAgent::Refuse`] is set.
    pub fn replay(&self, key: &str, asked: &Asked, recorded: &Asked) -> Result<(), DurableError> {
        let mut state = self.state();
        let is_same = |a: &Asked, b: &Asked| {
            (a.messages, &a.conversation, &a.settings) == (b.messages, &b.conversation, &b.settings)
        };
        if is_same(asked, recorded) {
            state.keep(recorded);
            return Ok(());
        }
        state.keep(recorded);
        // The recorded request may refer to settings of an earlier call.
        let old = state.known.get(&recorded.settings);
        let known = state.known.get(&asked.settings);
        let new = Some(&asked.fields).filter(|fields| !fields.is_empty()).or(known);
        let (expected, got) = difference::texts((recorded, old), (asked, new));
        let settings = (recorded.settings.clone(), asked.settings.clone());
        self.differs(&mut state, settings, format!("{key} with {expected}"), got)
    }

    fn differs(
        &self,
        state: &mut State,
        settings: (String, String),
        expected: String,
        got: String,
    ) -> Result<(), DurableError> {
        match self.changed_agent {
            ChangedAgent::Refuse => Err(DurableError::NonDeterminism { expected, got }),
            ChangedAgent::GoOn => {
                let settings = Some(settings);
                // Later calls differ in the same settings, so only the first one is logged.
                if state.warned != settings {
                    tracing::warn!(%expected, %got, "the agent changed, and the run continues");
                    state.warned = settings;
                }
                Ok(())
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn keep(&mut self, asked: &Asked) {
        if !asked.fields.is_empty() {
            self.known.insert(asked.settings.clone(), asked.fields.clone());
        }
    }

    /// Returns the digest of a request's messages. Hashes only the new messages if the previous request belongs to the
    /// same conversation.
    fn conversation_digest(&mut self, request: RequestRef<'_>) -> Result<String, DurableError> {
        // Without a key the beginning may have changed, so all messages are hashed.
        let Some(key) = request.history_key() else {
            return Ok(digest::text(read(Sha256::new(), request.messages)?));
        };
        let known = self.conversation.take().filter(|known| known.key == key);
        let known =
            // `None` if the conversation became shorter. It is then hashed from its start.
            known.and_then(|known| Some((request.messages.get(known.messages..)?, known.hash)));
        let (new, hash) = known.unwrap_or_else(|| (request.messages, Sha256::new()));
        let hash = read(hash, new)?;
        let digest = digest::text(hash.clone());
        self.conversation = Some(Conversation { key, messages: request.messages.len(), hash });
        Ok(digest)
    }
}

/// Adds the JSON of messages to a hash. Returns an error if a message cannot be serialised.
fn read(hash: Sha256, messages: &[Message]) -> Result<Sha256, DurableError> {
    let mut hasher = Hasher(hash);
    for message in messages {
        digest::write(&mut hasher, message)?;
    }
    Ok(hasher.0)
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("known", &self.known.keys()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
