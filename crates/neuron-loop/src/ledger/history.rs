//! The messages of a conversation, and the key that identifies them.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_types::{HistoryKey, Message, Role};
use serde::{Deserialize, Serialize};

/// The messages of a conversation, oldest first.
///
/// Two histories with the same [key](Self::key) agree in all messages that both have, except in the results of an open
/// batch. A session, a journal or a cache that has read some messages under a key needs only the messages after them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Message>", into = "Vec<Message>")]
pub(crate) struct History {
    messages: Vec<Message>,
    /// `None` in an empty history without clones.
    lineage: Option<Arc<Lineage>>,
}

/// The messages that were appended under one key. Clones of a history share it until they differ.
#[derive(Debug)]
struct Lineage {
    key: HistoryKey,
    /// Number of messages in the longest history with this key.
    length: AtomicUsize,
}

impl Lineage {
    fn new(length: usize) -> Option<Arc<Self>> {
        Some(Arc::new(Self { key: HistoryKey::unique(), length: AtomicUsize::new(length) }))
    }
}

impl History {
    /// Returns the key of these messages. Returns `None` for a history that never had a message.
    pub(crate) fn key(&self) -> Option<HistoryKey> {
        self.lineage.as_ref().map(|lineage| lineage.key)
    }

    /// Appends a message. The key changes if a clone with the same key has appended another message before.
    pub(crate) fn push(&mut self, message: Message) {
        let (length, longer) = (self.messages.len(), self.messages.len().saturating_add(1));
        let extends = |it: &Arc<Lineage>| {
            it.length.compare_exchange(length, longer, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        self.messages.push(message);
        // FAULT clones that differ have one key: `is_some_and(extends)` -> `is_some_and(|it| extends(it) || true)`
        //     (store::session_has_the_stored_conversation_after_forks_and_edits)
        if !self.lineage.as_ref().is_some_and(extends) {
            self.lineage = Lineage::new(longer);
        }
    }

    /// Changes the messages in any way. The key changes too.
    pub(crate) fn rewrite<R>(&mut self, change: impl FnOnce(&mut Vec<Message>) -> R) -> R {
        let result = change(&mut self.messages);
        // FAULT a rewritten history is appended: without the line (store::rewritten_history_is_written_as_a_whole)
        self.lineage = Lineage::new(self.messages.len());
        result
    }

    /// Borrows the last response, and the message with the results of its calls. Returns `None` without a response. Only
    /// for an open batch, because nothing has read the results of an open batch yet.
    pub(super) fn open_results(&mut self) -> Option<(&Message, OpenResults<'_>)> {
        let is_answer = |message: &Message| message.role == Role::Assistant;
        let end = self.messages.iter().rposition(is_answer)?.checked_add(1)?;
        let (length, lineage) = (self.messages.len(), &mut self.lineage);
        let (before, after) = self.messages.split_at_mut(end);
        Some((before.last()?, OpenResults { message: after.first_mut(), lineage, length }))
    }
}

/// The message with the results of an open batch.
pub(super) struct OpenResults<'l> {
    message: Option<&'l mut Message>,
    lineage: &'l mut Option<Arc<Lineage>>,
    /// Number of messages of the history.
    length: usize,
}

impl OpenResults<'_> {
    pub(super) fn message(&self) -> Option<&Message> {
        self.message.as_deref()
    }

    /// Returns the message to change a result.
    pub(super) fn change(&mut self) -> Option<&mut Message> {
        // A clone may give the calls of its batch other results.
        // FAULT results of a clone have the key of others: `count > 1` -> `count > usize::MAX - 1`
        //     (store::clones_with_different_decisions_are_not_mixed)
        if self.lineage.as_ref().map(Arc::strong_count).is_some_and(|count| count > 1) {
            *self.lineage = Lineage::new(self.length);
        }
        self.message.as_deref_mut()
    }
}

impl Deref for History {
    type Target = [Message];

    fn deref(&self) -> &[Message] {
        &self.messages
    }
}

/// Compares the messages. Equal histories may have different keys.
impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        self.messages == other.messages
    }
}

impl From<Vec<Message>> for History {
    fn from(messages: Vec<Message>) -> Self {
        let lineage = if messages.is_empty() { None } else { Lineage::new(messages.len()) };
        Self { messages, lineage }
    }
}

impl From<History> for Vec<Message> {
    fn from(history: History) -> Self {
        history.messages
    }
}
