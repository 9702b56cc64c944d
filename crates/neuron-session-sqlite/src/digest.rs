//! Digests of stored texts, which detect damaged rows and find equal messages ([`Digest`]).

use neuron_sqlite::rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use sha2::{Digest as _, Sha256};

/// The SHA-256 digest of a sequence of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// The digest of the empty sequence.
    pub(crate) const START: Self = Self([0; 32]);

    /// Returns the digest of this sequence followed by `text`.
    pub(crate) fn then(self, text: &[u8]) -> Self {
        Self(Sha256::new().chain_update(self.0).chain_update(text).finalize().into())
    }
}

impl ToSql for Digest {
    fn to_sql(&self) -> neuron_sqlite::rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for Digest {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        <[u8; 32]>::column_result(value).map(Self)
    }
}
