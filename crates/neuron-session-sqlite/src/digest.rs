//! Digests: what says that two things are the same, and that one is still what was written.

use neuron_sqlite::rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use sha2::{Digest as _, Sha256};

/// What identifies a text, or a row of texts in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// That of nothing, from which rows of texts begin.
    pub(crate) const START: Self = Self([0; 32]);

    /// That of all texts so far, and one more.
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
