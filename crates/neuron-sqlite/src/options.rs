//! How a database is opened.

use std::time::Duration;

/// How a database is opened.
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
    /// The defaults.
    pub fn new() -> Self {
        Self { busy_timeout: Duration::from_secs(10), synchronous: Synchronous::Full, readers: 4 }
    }

    /// How long to wait for another process that writes. 10 seconds by default. Writers of this
    /// process wait for each other without a limit.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// What a crash of the machine may take with it. Nothing by default.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// How many may read at the same time, beside one who writes. 4 by default, and at least 1.
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

/// What is on the disk when a write returns. A crash of the process alone loses nothing either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Synchronous {
    /// Everything.
    Full,
    /// A power failure may undo the last writes, one by one from the end. Writes are many times faster.
    ///
    /// The loss of these writes is not noticed:
    /// [`Database::open_witnessed`](crate::Database::open_witnessed) says why.
    Normal,
}

impl Synchronous {
    pub(crate) fn as_sql(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}
