//! A conversation as rows with the JSON of each message, and a digest by which a stored prefix is recognised
//! without reading it.

use neuron_types::{Message, StorageError, stored_json};
use sha2::{Digest as _, Sha256};

/// A digest of a message and all messages before it. It is the first half of the SHA-256 of the digest before it
/// and the JSON of the message.
///
/// A cryptographic hash, because users write the messages: with another, somebody could make one that is
/// taken for the one stored.
pub(crate) type Digest = [u8; DIGEST_BYTES];

pub(crate) const DIGEST_BYTES: usize = 16;

/// The digest of no messages.
pub(crate) const EMPTY: Digest = [0; DIGEST_BYTES];

/// Messages that follow a history, as rows.
#[derive(Debug)]
pub(crate) struct History {
    /// The digest of what comes before.
    start: Digest,
    bodies: Vec<String>,
    digests: Vec<Digest>,
}

impl History {
    /// Writes messages that follow a history with this digest.
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

    /// The digest after the first messages, if there are so many.
    pub(crate) fn digest_at(&self, count: usize) -> Option<&Digest> {
        match count.checked_sub(1) {
            None => Some(&self.start),
            Some(last) => self.digests.get(last),
        }
    }

    /// The digest of all.
    pub(crate) fn digest(&self) -> &Digest {
        self.digests.last().unwrap_or(&self.start)
    }

    /// Returns the number of messages at the beginning with these digests.
    pub(crate) fn common(&self, stored: &[Vec<u8>]) -> usize {
        let pairs = self.digests.iter().zip(stored);
        pairs.take_while(|(ours, theirs)| ours.as_slice() == theirs.as_slice()).count()
    }

    /// The JSON of the messages from this one on.
    pub(crate) fn bodies_from(&self, first: usize) -> Vec<&str> {
        self.bodies.iter().skip(first).map(String::as_str).collect()
    }

    /// The digests of the messages from this one on.
    pub(crate) fn digests_from(&self, first: usize) -> Vec<&[u8]> {
        self.digests.iter().skip(first).map(Digest::as_slice).collect()
    }
}

/// The digest of a whole conversation that was read.
pub(crate) fn digest_of<'a>(bodies: impl IntoIterator<Item = &'a str>) -> Digest {
    bodies.into_iter().fold(EMPTY, |last, body| next(&last, body))
}

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
    fn a_history_goes_on_from_its_digest() {
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
    fn a_digest_stands_for_all_before_it() {
        let [left, right] = [["a", "bc", "d"], ["ab", "c", "d"]]
            .map(|texts| History::after(EMPTY, &messages(&texts)).unwrap());
        let stored: Vec<Vec<u8>> = left.digests.iter().map(|digest| digest.to_vec()).collect();
        assert_eq!(left.common(&stored), 3);
        assert_eq!(right.common(&stored), 0, "equal messages after a different one are different");
    }
}
