//! A name for a conversation that only grows.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Message, RequestRef};

/// The name of a conversation that only grows.
///
/// If two requests of one process have the same key, the messages of the earlier one are the beginning of the
/// messages of the later one. So a reader that kept a digest or a prepared body of the earlier request reads the
/// new messages alone. A loop that changes earlier messages takes another key with
/// [`rewritten`](Self::rewritten).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HistoryKey {
    conversation: usize,
    rewrites: usize,
}

impl HistoryKey {
    /// A key that this process has not used yet.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self { conversation: NEXT.fetch_add(1, Ordering::Relaxed), rewrites: 0 }
    }

    /// The key of the same conversation after earlier messages changed this many times.
    #[must_use]
    pub fn rewritten(self, rewrites: usize) -> Self {
        Self { rewrites, ..self }
    }
}

/// A [`HistoryKey`] with the messages that it was given to.
///
/// `Debug` shows neither: the messages stand in the request.
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
    /// Gives the conversation of the request a name.
    #[must_use]
    pub fn with_history(self, key: HistoryKey) -> Self {
        Self { history: Some(History { key, messages: self.messages }), ..self }
    }

    /// The name of the conversation. `None` if it has none, or if the request has other messages since it was
    /// named.
    #[must_use]
    pub fn history_key(&self) -> Option<HistoryKey> {
        let history = self.history.filter(|history| std::ptr::eq(history.messages, self.messages));
        history.map(|history| history.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_with_other_messages_loses_the_name_of_its_conversation() {
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
    fn no_two_conversations_and_no_two_rewrites_have_the_same_key() {
        let (a, b) = (HistoryKey::unique(), HistoryKey::unique());
        assert_ne!(a, b);
        assert_ne!(a, a.rewritten(1));
        assert_eq!(a.rewritten(1), a.rewritten(1));
        assert_ne!(a.rewritten(1), b.rewritten(1));
    }
}
