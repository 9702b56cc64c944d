//! Keys that identify the conversation of a run across requests, for caches.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Message, RequestRef};

/// The key of a conversation to which messages are only appended.
///
/// If two requests in a process have the same key, the later request starts with all messages of the earlier request.
/// Code that caches a digest or the serialised messages therefore needs to process only the new messages. After a
/// change of earlier messages, the loop must use a new key from [`rewritten`](Self::rewritten).
///
/// The agent loop creates a key for each run, because a conversation can be cloned or changed between two runs.
/// Therefore the key does not identify a conversation across runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HistoryKey {
    /// Number that identifies the conversation. No other conversation in this process has the same number.
    conversation: usize,
    /// Number of times that earlier messages of the conversation were changed.
    rewrites: usize,
}

impl HistoryKey {
    /// Creates a key that is unique in this process.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // `Relaxed` suffices, because the numbers only need to be unique.
        Self { conversation: NEXT.fetch_add(1, Ordering::Relaxed), rewrites: 0 }
    }

    /// Returns the key of the same conversation after its earlier messages were changed `rewrites` times.
    #[must_use]
    pub fn rewritten(self, rewrites: usize) -> Self {
        Self { rewrites, ..self }
    }
}

/// A [`HistoryKey`], with the messages for which the key was set.
///
/// `Debug` omits the fields, because a request also contains the messages and shows them already.
#[derive(Clone, Copy)]
pub struct History<'a> {
    key: HistoryKey,
    messages: &'a [Message],
}

impl fmt::Debug for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").finish_non_exhaustive()
    }
}

impl PartialEq for History<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && std::ptr::eq(self.messages, other.messages)
    }
}

impl<'a> RequestRef<'a> {
    /// Sets the key of the request's conversation.
    #[must_use]
    pub fn with_history(self, key: HistoryKey) -> Self {
        Self { history: Some(History { key, messages: self.messages }), ..self }
    }

    /// Returns the key of the conversation. Returns `None` if no key was set, or if the field `messages` was replaced
    /// after the key was set.
    #[must_use]
    pub fn history_key(&self) -> Option<HistoryKey> {
        // The key is only valid for the messages with which it was set. Comparing addresses avoids comparing contents.
        let history = self.history.filter(|history| std::ptr::eq(history.messages, self.messages));
        history.map(|history| history.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_messages_invalidate_the_history_key() {
        let messages = [Message::user("a"), Message::user("b")];
        let key = HistoryKey::unique();
        let request = RequestRef { messages: &messages, ..Default::default() }.with_history(key);
        assert_eq!(request.history_key(), Some(key));
        assert_eq!(RequestRef { model: "m", ..request }.history_key(), Some(key));
        let copy = messages.clone();
        for other in [&messages[..1], &messages[1..], &copy] {
            assert_eq!(RequestRef { messages: other, ..request }.history_key(), None);
        }
    }

    #[test]
    fn keys_differ_by_conversation_and_rewrite() {
        let (a, b) = (HistoryKey::unique(), HistoryKey::unique());
        assert_ne!(a, b);
        assert_ne!(a, a.rewritten(1));
        assert_eq!(a.rewritten(1), a.rewritten(1));
        assert_ne!(a.rewritten(1), b.rewritten(1));
    }
}
