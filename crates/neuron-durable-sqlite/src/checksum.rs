//! The checksum of a row ([`Checksum`]).

use neuron_sqlite::rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use sha2::{Digest as _, Sha256};

/// Checksum of a row, made of the first 128 bits of the SHA-256 digest of its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checksum([u8; 16]);

impl Checksum {
    /// Returns the checksum of numbers and texts. A missing value has another checksum than zero or an empty text.
    pub(crate) fn of(numbers: &[Option<i64>], texts: &[Option<&str>]) -> Self {
        let mut sum = Sha256::new();
        for number in numbers {
            sum.update([u8::from(number.is_some())]);
            sum.update(number.unwrap_or_default().to_le_bytes());
        }
        for text in texts {
            sum.update([u8::from(text.is_some())]);
            let text = text.unwrap_or_default();
            sum.update((text.len() as u64).to_le_bytes());
            sum.update(text);
        }
        Self::finish(sum)
    }

    /// Returns the checksum of two checksums.
    pub(crate) fn with(self, other: Self) -> Self {
        Self::finish(Sha256::new().chain_update(self.0).chain_update(other.0))
    }

    fn finish(sum: Sha256) -> Self {
        let sum: [u8; 32] = sum.finalize().into();
        let mut short = [0; 16];
        short.iter_mut().zip(sum).for_each(|(short, byte)| *short = byte);
        Self(short)
    }
}

impl ToSql for Checksum {
    fn to_sql(&self) -> neuron_sqlite::rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

impl FromSql for Checksum {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        <[u8; 16]>::column_result(value).map(Self)
    }
}
