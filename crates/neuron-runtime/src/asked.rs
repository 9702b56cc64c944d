//! The request of each call of the model in a journal, by which a replay detects a changed agent.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use neuron_types::{DurableError, HistoryKey, Message, RequestRef};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::{self, Hasher};

mod difference;

/// The request of a call of the model in short. It is kept beside the answer in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Asked {
    /// Number of messages of the conversation.
    pub messages: usize,
    /// Digest of the conversation.
    pub conversation: String,
    /// Digest of all other fields.
    pub settings: String,
    /// The other fields as JSON texts. A tool's field is `tools.NAME`. Long texts are cut, and `extra` is
    /// stored as a digest. Empty if an earlier call of the journal has the same settings, or a record had no
    /// room for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
}

impl Asked {
    /// Returns the request without its fields.
    pub(crate) fn without_fields(&self) -> Self {
        Self { fields: BTreeMap::new(), ..self.clone() }
    }
}

/// The reaction of a run whose agent sends another request than the journal has, because the prompt, a tool or the
/// model changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ChangedAgent {
    /// The run stops with [`DurableError::NonDeterminism`], which names each field that changed, with the beginning of its old
    /// and its new value. The default model of a provider is no field. It goes on once the
    /// agent is as it was, or is allowed to [go on](Self::GoOn).
    #[default]
    Refuse,
    /// The answers in the journal hold, also for other questions. From the end of the journal on the agent asks as it
    /// is now. A log line at level `WARN` says what changed. The agent must still ask for the same steps in the same
    /// order.
    GoOn,
}

/// The requests of one run so far. It creates the [`Asked`] of each call and compares it with the journal.
///
/// The work for a call depends on the messages that are new, and not on the length of the conversation. This needs the
/// [name](RequestRef::history_key) of the conversation, which an agent loop gives.
#[derive(Debug, Default)]
pub struct RequestLog {
    changed_agent: ChangedAgent,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    conversation: Option<Conversation>,
    /// The fields of the settings that the journal has, by their digests.
    known: BTreeMap<String, BTreeMap<String, String>>,
    /// The settings of the last warning, of the journal and of the agent.
    warned: Option<(String, String)>,
}

/// The part of a conversation that was read.
struct Conversation {
    key: HistoryKey,
    messages: usize,
    hash: Sha256,
}

impl RequestLog {
    /// Creates the log of a run at its beginning.
    #[must_use]
    pub fn new(changed_agent: ChangedAgent) -> Self {
        Self { changed_agent, state: Mutex::default() }
    }

    /// Drops all calls, because the journal is read again from its start, or a new one starts.
    pub fn restart(&self) {
        *self.state() = State::default();
    }

    /// Reads the request of the next call.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if the request cannot be written as JSON.
    pub fn ask(&self, request: RequestRef<'_>) -> Result<Asked, DurableError> {
        let settings = RequestRef { messages: &[], ..request };
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

    /// Notes that the journal has the call.
    pub fn keep(&self, asked: &Asked) {
        self.state().keep(asked);
    }

    /// Compares a call with the call in its place in the journal, and [keeps](Self::keep) the latter.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if they differ and the agent may not change.
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
        let old = state.known.get(&recorded.settings);
        let known = state.known.get(&asked.settings);
        let new = Some(&asked.fields).filter(|fields| !fields.is_empty()).or(known);
        let (expected, got) = difference::texts((recorded, old), (asked, new));
        let settings = (recorded.settings.clone(), asked.settings.clone());
        self.differs(&mut state, settings, format!("{key} with {expected}"), got)
    }

    /// Compares a call with the [digest](crate::llm_digest) that older releases kept of it.
    ///
    /// # Errors
    ///
    /// As [`replay`](Self::replay).
    pub fn replay_digest(
        &self,
        key: &str,
        request: RequestRef<'_>,
        recorded: &str,
    ) -> Result<(), DurableError> {
        let digest = digest::of(&request)?;
        match digest == recorded {
            true => Ok(()),
            false => {
                let expected = format!("{key} with a request of digest {recorded}");
                let settings = Default::default();
                self.differs(&mut self.state(), settings, expected, format!("digest {digest}"))
            }
        }
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
                if state.warned != settings {
                    tracing::warn!(%expected, %got, "the agent changed, and the run goes on");
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

    /// The digest of a conversation. Of one that was read before, only the new messages are read.
    fn conversation_digest(&mut self, request: RequestRef<'_>) -> Result<String, DurableError> {
        let Some(key) = request.history_key() else {
            return Ok(digest::text(read(Sha256::new(), request.messages)?));
        };
        let known = self.conversation.take().filter(|known| known.key == key);
        let known =
            known.and_then(|known| Some((request.messages.get(known.messages..)?, known.hash)));
        let (new, hash) = known.unwrap_or_else(|| (request.messages, Sha256::new()));
        let hash = read(hash, new)?;
        let digest = digest::text(hash.clone());
        self.conversation = Some(Conversation { key, messages: request.messages.len(), hash });
        Ok(digest)
    }
}

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
