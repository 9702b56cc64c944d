//! The revisions of a session.

use neuron_types::SessionRevision;

use crate::history::{DIGEST_BYTES, Digest};

/// A version of a stored session. The number alone tells it apart; length and digest let `append` go on
/// without reading anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Revision {
    /// Number from a sequence of the database, which is different for each write.
    pub(crate) number: i64,
    /// Number of messages.
    pub(crate) count: i64,
    /// The digest of the messages.
    pub(crate) digest: Digest,
}

impl Revision {
    pub(crate) fn to_token(&self) -> SessionRevision {
        let digest: String = self.digest.iter().map(|byte| format!("{byte:02x}")).collect();
        SessionRevision::new(format!("{}.{}.{digest}", self.number, self.count))
    }

    /// Parses a token. `None` for a token of another storage.
    pub(crate) fn from_token(token: &SessionRevision) -> Option<Self> {
        let mut parts = token.as_str().split('.');
        let revision = Self {
            number: parts.next()?.parse().ok()?,
            count: parts.next()?.parse().ok()?,
            digest: from_hex(parts.next()?)?,
        };
        // Whoever changed the spelling did not get it from us.
        (revision.to_token() == *token).then_some(revision)
    }
}

fn from_hex(text: &str) -> Option<Digest> {
    let mut digest = [0; DIGEST_BYTES];
    for (index, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_was() {
        let revision = Revision { number: 7, count: 10_000, digest: [0xa5; DIGEST_BYTES] };
        let token = revision.to_token();
        assert_eq!(token.as_str(), "7.10000.a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5");
        assert_eq!(Revision::from_token(&token), Some(revision));
    }

    #[test]
    fn a_foreign_token_has_no_meaning() {
        let digest = "a5".repeat(DIGEST_BYTES);
        for token in [
            String::new(),
            "7".into(),
            "7.3".into(),
            format!("x.3.{digest}"),
            format!("+7.3.{digest}"),
            format!("7.3.{digest}00"),
            format!("7.3.{digest}.1"),
            format!("7.3.{}", digest.to_uppercase()),
            format!("7.3.{}é", &digest[1..]),
        ] {
            assert_eq!(Revision::from_token(&SessionRevision::new(token.clone())), None, "{token}");
        }
    }
}
