//! Keys that identify the conversation of a run across requests, for caches.

use std::any::type_name;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Message, RequestRef};

/// The key of a conversation to which messages are only appended.
///
/// If two requests in a process have the same key, the longer one starts with all messages of the shorter one. Code that
/// caches a digest or the serialised messages therefore needs to process only the new messages.
///
/// The agent loop keeps the key of a conversation while messages are appended to it, also across runs. A conversation
/// gets a new key when an earlier message changes, when it is forked or deserialised, and when a clone of it goes
/// another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HistoryKey(usize);

impl HistoryKey {
    /// Creates a key that is unique in this process.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // `Relaxed` suffices, because the numbers only need to be unique.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What is known about the messages of a request, with the messages for which it was set.
///
/// `Debug` omits the fields, because a request also contains the messages and shows them already.
#[derive(Clone, Copy)]
pub struct History<'a> {
    fact: Fact,
    messages: &'a [Message],
}

#[derive(Clone, Copy, PartialEq)]
enum Fact {
    Key(HistoryKey),
    /// The provider with this type and address lent its owned request, because it has no
    /// [`complete`](crate::Provider::complete) or [`complete_stream`](crate::Provider::complete_stream).
    LentBy(&'static str, usize),
}

impl fmt::Debug for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").finish_non_exhaustive()
    }
}

impl PartialEq for History<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.fact == other.fact && std::ptr::eq(self.messages, other.messages)
    }
}

impl<'a> RequestRef<'a> {
    /// Sets the key of the request's conversation.
    #[must_use]
    pub fn with_history(self, key: HistoryKey) -> Self {
        self.with_fact(Fact::Key(key))
    }

    /// Returns the key of the conversation. Returns `None` if no key was set, or if the field `messages` was replaced
    /// after the key was set.
    #[must_use]
    pub fn history_key(&self) -> Option<HistoryKey> {
        match self.fact()? {
            Fact::Key(key) => Some(key),
            Fact::LentBy(..) => None,
        }
    }

    /// Marks the request as lent by a provider that has only methods which borrow.
    pub(crate) fn lent_by<P: ?Sized>(self, provider: &P) -> Self {
        self.with_fact(Fact::LentBy(type_name::<P>(), address(provider)))
    }

    /// Returns `true` if this provider lent the request.
    pub(crate) fn is_lent_by<P: ?Sized>(&self, provider: &P) -> bool {
        // The address alone could be that of a field, to which a wrapper forwards the request.
        self.fact() == Some(Fact::LentBy(type_name::<P>(), address(provider)))
    }

    fn with_fact(self, fact: Fact) -> Self {
        Self { history: Some(History { fact, messages: self.messages }), ..self }
    }

    fn fact(&self) -> Option<Fact> {
        // It is only valid for the messages with which it was set. Comparing addresses avoids comparing contents.
        let history = self.history.filter(|history| std::ptr::eq(history.messages, self.messages));
        history.map(|history| history.fact)
    }
}

fn address<P: ?Sized>(provider: &P) -> usize {
    std::ptr::from_ref(provider).addr()
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
}
