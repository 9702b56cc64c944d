//! The row of a signal that the run has not received yet ([`SignalRow`]).
//!
//! Signals are read without the index of their table. If a damaged index lacked a signal, the run would never receive
//! it.

use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{Connection, Row};

use crate::JournalError;
use crate::checksum::Checksum;

type Result<T> = std::result::Result<T, Abort<JournalError>>;

/// A signal in the queue of a run.
#[derive(Debug, Clone)]
pub(crate) struct SignalRow {
    key: i64,
    pub(crate) name: String,
    /// Time at which the signal was sent, in milliseconds since 1970.
    pub(crate) sent_at: i64,
    /// The signal's value as JSON.
    pub(crate) value: String,
}

const COLUMNS: &str = "key, name, sent_at, value, sum";

impl SignalRow {
    /// Creates the row of a signal, which is not stored yet.
    pub(crate) fn new(name: String, sent_at: i64, value: String) -> Self {
        Self { key: 0, name, sent_at, value }
    }

    /// Adds the signal to the queue of a run.
    pub(crate) fn insert(&self, connection: &Connection, run: i64) -> Result<()> {
        let mut insert = connection.prepare_cached(
            "INSERT INTO signals (run, name, sent_at, value, sum) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        insert.execute((run, &self.name, self.sent_at, &self.value, self.checksum(run)))?;
        Ok(())
    }

    /// Removes the oldest signal with this name from the queue of a run, and returns it. Returns `None` if no such
    /// signal is queued.
    pub(crate) fn take(
        connection: &Connection,
        (run, id): (i64, &str),
        name: &str,
    ) -> Result<Option<Self>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM signals NOT INDEXED WHERE run = ?1 AND name = ?2 ORDER BY key LIMIT 1"
        );
        let mut select = connection.prepare_cached(&sql)?;
        let mut rows = select.query((run, name))?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let signal = Self::read(row, (run, id))?;
        connection.execute("DELETE FROM signals WHERE key = ?1", [signal.key])?;
        Ok(Some(signal))
    }

    /// Returns `true` if the queue of a run has a signal with this name. This check uses the index.
    pub(crate) fn is_queued(connection: &Connection, run: i64, name: &str) -> Result<bool> {
        let mut select =
            connection.prepare_cached("SELECT 1 FROM signals WHERE run = ?1 AND name = ?2")?;
        Ok(select.exists((run, name))?)
    }

    /// Lists the queue of a run, the oldest signal first.
    pub(crate) fn all(connection: &Connection, (run, id): (i64, &str)) -> Result<Vec<Self>> {
        let sql = format!("SELECT {COLUMNS} FROM signals NOT INDEXED WHERE run = ?1 ORDER BY key");
        let mut select = connection.prepare_cached(&sql)?;
        let mut rows = select.query([run])?;
        let mut signals = Vec::new();
        while let Some(row) = rows.next()? {
            signals.push(Self::read(row, (run, id))?);
        }
        Ok(signals)
    }

    /// Reads a row and checks its checksum.
    fn read(row: &Row<'_>, (run, id): (i64, &str)) -> Result<Self> {
        let signal =
            Self { key: row.get(0)?, name: row.get(1)?, sent_at: row.get(2)?, value: row.get(3)? };
        if row.get::<_, Checksum>(4)? != signal.checksum(run) {
            let reason = format!("its signal {} is not as written", signal.key);
            return Err(JournalError::corrupt(id, reason).into());
        }
        Ok(signal)
    }

    /// Returns the checksum of the signal's columns.
    fn checksum(&self, run: i64) -> Checksum {
        Checksum::of(&[Some(run), Some(self.sent_at)], &[Some(&self.name), Some(&self.value)])
    }
}
