//! Encodes messages as rows ([`History`]). The digest in each row covers its message and all earlier messages. If a
//! digest is equal, all messages up to this row are unchanged. This is checked without reading the messages.

use neuron_types::{Message, StorageError, stored_json};
use sha2::{Digest as _, Sha256};

/// Digest of a message and all messages before it. It is the first half of the SHA-256 of two inputs, the previous
/// digest and the message's JSON.
///
/// Users write the messages, so the hash must be cryptographic. With a weak hash, a user could construct a message that
/// has the digest of another message.
pub(crate) type Digest = [u8; DIGEST_BYTES];

/// Length of a digest in bytes.
pub(crate) const DIGEST_BYTES: usize = 16;

/// Digest of an empty conversation.
pub(crate) const EMPTY: Digest = [0; DIGEST_BYTES];

/// Messages of a session, encoded as database rows. Other messages of the session may precede them.
#[derive(Debug)]
pub(crate) struct History {
    /// Digest of the messages that precede these messages, or [`EMPTY`] if there are none.
    start: Digest,
    /// JSON of each message, in order.
    bodies: Vec<String>,
    /// Digest of each message with all messages before it, in order.
    digests: Vec<Digest>,
}

impl History {
    /// Encodes `messages`. `start` is the digest of the session's messages before them, or [`EMPTY`] if there are none.
    pub(crate) fn after(start: Digest, messages: &[Message]) -> Result<Self, StorageError> {
        let bodies: Vec<String> =
            messages.iter().map(stored_json::to_string).collect::<Result<_, _>>()?;
        let mut last = start;
        let digests = bodies
            .iter()
            .map(|body| {
                last = next(&last, body);
                last
            })
            .collect();
        Ok(Self { start, bodies, digests })
    }

    /// Returns the digest after the first `count` messages in this `History`. Returns `None` if there are fewer
    /// messages.
    pub(crate) fn digest_at(&self, count: usize) -> Option<&Digest> {
        match count.checked_sub(1) {
            None => Some(&self.start),
            Some(last) => self.digests.get(last),
        }
    }

    /// Returns the digest of all messages, including the messages that precede this `History`.
    pub(crate) fn digest(&self) -> &Digest {
        self.digests.last().unwrap_or(&self.start)
    }

    /// Compares the digests of the messages with `stored`, in order. Returns the number of equal digests before the
    /// first difference.
    pub(crate) fn common(&self, stored: &[Vec<u8>]) -> usize {
        let pairs = self.digests.iter().zip(stored);
        pairs.take_while(|(ours, theirs)| ours.as_slice() == theirs.as_slice()).count()
    }

    /// Returns the JSON of the messages from index `first` on.
    pub(crate) fn bodies_from(&self, first: usize) -> Vec<&str> {
        self.bodies.iter().skip(first).map(String::as_str).collect()
    }

    /// Returns the digests of the messages from index `first` on.
    pub(crate) fn digests_from(&self, first: usize) -> Vec<&[u8]> {
        self.digests.iter().skip(first).map(Digest::as_slice).collect()
    }
}

/// Returns the digest of a whole conversation, given the JSON of its messages.
pub(crate) fn digest_of<'a>(bodies: impl IntoIterator<Item = &'a str>) -> Digest {
    bodies.into_iter().fold(EMPTY, |last, body| next(&last, body))
}

/// Returns the digest of a message that follows a message with the digest `last`.
fn next(last: &Digest, body: &str) -> Digest {
    let hash = Sha256::new().chain_update(last).chain_update(body).finalize();
    let mut digest = EMPTY;
    digest.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(texts: &[&str]) -> Vec<Message> {
        texts.iter().map(|text| Message::user(*text)).collect()
    }

    #[test]
    fn digest_of_appended_messages_equals_digest_of_the_whole() {
        let whole = History::after(EMPTY, &messages(&["a", "b", "c"])).unwrap();
        let head = History::after(EMPTY, &messages(&["a"])).unwrap();
        let tail = History::after(*head.digest(), &messages(&["b", "c"])).unwrap();
        assert_eq!(whole.digest(), tail.digest());
        assert_eq!(whole.digest_at(1), Some(head.digest()));
        assert_eq!(whole.digest_at(0), Some(&EMPTY));
        assert_eq!(whole.digest_at(4), None);
        assert_eq!(digest_of(whole.bodies_from(0)), *whole.digest());
    }

    #[test]
    fn digest_covers_all_earlier_messages() {
        let [left, right] = [["a", "bc", "d"], ["ab", "c", "d"]]
            .map(|texts| History::after(EMPTY, &messages(&texts)).unwrap());
        let stored: Vec<Vec<u8>> = left.digests.iter().map(|digest| digest.to_vec()).collect();
        assert_eq!(left.common(&stored), 3);
        assert_eq!(right.common(&stored), 0, "equal messages after a different one are different");
    }
}
