//! Revisions of stored sessions ([`Revision`]).

use neuron_types::SessionRevision;

use crate::history::{DIGEST_BYTES, Digest};

/// A revision of a stored session. The number alone identifies the revision.
///
/// The count and the digest are for [`append`](neuron_types::VersionedSessionStorage::append). It takes them from the
/// caller's revision instead of reading them from the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Revision {
    /// Number from a sequence of the database. Each write gets a new number.
    pub(crate) number: i64,
    /// Number of messages in the session.
    pub(crate) count: i64,
    /// Digest of all messages in the session.
    pub(crate) digest: Digest,
}

impl Revision {
    /// Formats the revision as an opaque token, which callers of the storage receive.
    pub(crate) fn to_token(&self) -> SessionRevision {
        let digest: String = self.digest.iter().map(|byte| format!("{byte:02x}")).collect();
        SessionRevision::new(format!("{}.{}.{digest}", self.number, self.count))
    }

    /// Parses a token that [`to_token`](Self::to_token) created. Returns `None` for any other token.
    pub(crate) fn from_token(token: &SessionRevision) -> Option<Self> {
        let mut parts = token.as_str().split('.');
        let revision = Self {
            number: parts.next()?.parse().ok()?,
            count: parts.next()?.parse().ok()?,
            digest: from_hex(parts.next()?)?,
        };
        // A token in another spelling, such as upper-case digits, was not created by this storage.
        (revision.to_token() == *token).then_some(revision)
    }
}

/// Parses the hexadecimal digits of a digest. Returns `None` if they are invalid.
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
    fn token_round_trip_keeps_the_revision() {
        let revision = Revision { number: 7, count: 10_000, digest: [0xa5; DIGEST_BYTES] };
        let token = revision.to_token();
        assert_eq!(token.as_str(), "7.10000.a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5");
        assert_eq!(Revision::from_token(&token), Some(revision));
    }

    #[test]
    fn foreign_token_is_rejected() {
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
