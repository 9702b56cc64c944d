//! The options of a database ([`SqliteOptions`]).

use std::time::Duration;

/// Options for opening a database.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_sqlite::{SqliteOptions, Synchronous};
///
/// let options = SqliteOptions::new()
///     .busy_timeout(Duration::from_secs(30))
///     .synchronous(Synchronous::Normal);
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct SqliteOptions {
    pub(crate) busy_timeout: Duration,
    pub(crate) synchronous: Synchronous,
    pub(crate) readers: usize,
}

impl SqliteOptions {
    /// Creates options with the defaults.
    pub fn new() -> Self {
        Self { busy_timeout: Duration::from_secs(10), synchronous: Synchronous::Full, readers: 4 }
    }

    /// Sets the maximum wait for a write of another process, also when the database is opened. Default: 10 seconds.
    /// Writers of the same process wait for each other without a limit.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Sets which writes a power failure may undo. Default: [`Synchronous::Full`], which loses none.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets the maximum number of concurrent readers beside the writer. Default: 4. Minimum: 1.
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers.max(1);
        self
    }
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// The durability of a write when its call returns. A crash of the process alone loses no write in any mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Synchronous {
    /// Every write is synced to the disk. A power failure loses none.
    Full,
    /// Writes are not synced, and are many times faster. A power failure may undo the last writes.
    ///
    /// This loss is not detected, even by a witness. [`Database::open_witnessed`](crate::Database::open_witnessed)
    /// explains the reason.
    Normal,
}

impl Synchronous {
    /// Returns the value of SQLite's pragma `synchronous`.
    pub(crate) fn as_sql(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}
