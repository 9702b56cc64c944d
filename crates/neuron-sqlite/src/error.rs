//! Errors of a database ([`SqliteError`]), and their conversion into errors of storages.

use std::io;
use std::path::{Path, PathBuf};

use neuron_types::{DurableError, StorageError};
use rusqlite::{Error, ErrorCode};

/// An error of a database.
///
/// The operator `?` converts it into a [`StorageError`].
///
/// # Causes and fixes
///
#[doc = include_str!("../errors/sqlite_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqliteError {
    /// The file is not a SQLite database. It is not changed.
    #[error("{} is no SQLite database: {reason}; it is left as it is", path.display())]
    NotADatabase {
        /// Path of the file that is not a database.
        path: PathBuf,
        /// Description of the file's actual type.
        reason: String,
    },
    /// The database belongs to another application, or to another storage of neuron. It is not changed.
    #[error(
        "{} is {}, not a database of {expected}: use another file; it is left as it is",
        path.display(),
        owned(*found)
    )]
    OtherApplication {
        /// Path of the database.
        path: PathBuf,
        /// SQLite's `application_id` in the file.
        found: i32,
        /// Name of the application that opened the database, from [`Schema::application`](crate::Schema::application).
        expected: &'static str,
    },
    /// The database was written by a newer version of the application, or by one that is too old. It is not changed.
    #[error("{} has schema version {found}, {}", path.display(), unsupported(*found, *supported))]
    UnsupportedVersion {
        /// Path of the database.
        path: PathBuf,
        /// Schema version of the database.
        found: u64,
        /// Newest schema version that can be read.
        supported: u64,
    },
    /// The database is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Corrupt {
        /// Path of the database.
        path: PathBuf,
        /// Description of the damage.
        reason: String,
        /// The error of SQLite, if SQLite found the damage.
        source: Option<rusqlite::Error>,
    },
    /// The database lacks commits that it had before. The write-ahead log or the database file was deleted, cut,
    /// damaged or replaced by an older copy. The database is not changed.
    ///
    /// Only databases that were opened with [`Database::open_witnessed`](crate::Database::open_witnessed) return this
    /// error.
    #[error("{}: {}", path.display(), lost(witness, *found, *expected))]
    Lost {
        /// Path of the database.
        path: PathBuf,
        /// Path of the witness file, which counts the commits of the database.
        witness: PathBuf,
        /// Sequence number of the last commit in the database.
        found: u64,
        /// Sequence number of the last commit that the witness file has recorded.
        expected: u64,
    },
    /// The path does not name the file that was opened any more, or the file also has another path. Nothing was read or
    /// written.
    #[error("{} cannot be used: {reason}", path.display())]
    Replaced {
        /// Path of the database.
        path: PathBuf,
        /// Description of the change to the file, and how to fix it.
        reason: &'static str,
    },
    /// The database is read-only.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// Path of the database.
        path: PathBuf,
        /// The error of SQLite, if SQLite reported it.
        source: Option<rusqlite::Error>,
    },
    /// Another process held the database for longer than
    /// [`SqliteOptions::busy_timeout`](crate::SqliteOptions::busy_timeout).
    #[error(
        "{} is locked by another process: wait until that process is done, stop it, or use another file",
        path.display()
    )]
    Busy {
        /// Path of the database.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The disk is full. The transaction changed nothing.
    #[error("there is no room left for {}", path.display())]
    Full {
        /// Path of the database.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// An operation of the file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the database.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// Any other error of SQLite.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// Path of the database.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The tokio runtime shut down before the work was done. Nothing was changed.
    #[error("the runtime shut down before the work on {} was done", path.display())]
    Stopped {
        /// Path of the database.
        path: PathBuf,
    },
}

impl SqliteError {
    /// Converts an error of SQLite. `path` is the path of the database.
    #[must_use]
    pub fn new(path: &Path, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => {
                Self::Corrupt { path, reason: error.to_string(), source: Some(error) }
            }
            Some(ErrorCode::NotADatabase) => {
                Self::NotADatabase { path, reason: "it does not begin as one".into() }
            }
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path, source: Some(error) },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { path, source: error }
            }
            Some(ErrorCode::DiskFull) => Self::Full { path, source: error },
            // A column contains a value that this crate never writes.
            None if matches!(
                error,
                Error::FromSqlConversionFailure(..)
                    | Error::IntegralValueOutOfRange(..)
                    | Error::InvalidColumnType(..)
                    | Error::Utf8Error(..)
            ) =>
            {
                Self::Corrupt { path, reason: error.to_string(), source: Some(error) }
            }
            _ => Self::Sqlite { path, source: error },
        }
    }

    /// Returns `true` if a retry of the same operation may succeed, because another process used the database.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }

    /// Returns the kind of an I/O error. Returns `None` for all other errors.
    fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            Self::Full { .. } => Some(io::ErrorKind::StorageFull),
            Self::ReadOnly { .. } => Some(io::ErrorKind::PermissionDenied),
            Self::Sqlite { source, .. } => match source.sqlite_error_code() {
                Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => {
                    Some(io::ErrorKind::Other)
                }
                Some(ErrorCode::PermissionDenied) => Some(io::ErrorKind::PermissionDenied),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Describes a database by its `application_id`. Names the storages of neuron, because a program that uses several of
/// them easily mixes up their files.
fn owned(application_id: i32) -> &'static str {
    match application_id {
        // The bytes of `nrnS`, the id of `neuron-session-sqlite`.
        0x6e72_6e53 => "a session database of neuron",
        // The bytes of `nrnR`, the id of `neuron-durable-sqlite`.
        0x6e72_6e52 => "a run journal of neuron",
        _ => "a SQLite database of another application",
    }
}

/// Returns the error text for lost commits, including how to accept the loss. `found` is the sequence number of the
/// last commit in the database. `expected` is the sequence number in the witness file.
fn lost(witness: &Path, found: u64, expected: u64) -> String {
    format!(
        "it has {found} commits, and {} has seen {expected}: its log (-wal) or the database itself was deleted, cut, \
         damaged or replaced by an older copy; restore these files, or call `accept_older` if the older state is wanted",
        witness.display()
    )
}

impl From<SqliteError> for StorageError {
    fn from(error: SqliteError) -> Self {
        if let Some(kind) = error.io_kind() {
            return Self::Io(io::Error::new(kind, error));
        }
        let location = |path: PathBuf| path.display().to_string();
        match error {
            SqliteError::NotADatabase { path, reason } => Self::Corrupt {
                location: location(path),
                reason: format!("it is no SQLite database: {reason}"),
            },
            SqliteError::OtherApplication { path, found, .. } => Self::Corrupt {
                location: location(path),
                reason: format!("it is {}, so use another file", owned(found)),
            },
            SqliteError::Corrupt { path, reason, .. } => {
                Self::Corrupt { location: location(path), reason }
            }
            SqliteError::Lost { path, witness, found, expected } => {
                Self::Corrupt { location: location(path), reason: lost(&witness, found, expected) }
            }
            SqliteError::UnsupportedVersion { path, found, supported } => {
                Self::UnsupportedVersion { location: location(path), found, supported }
            }
            other => Self::Other(Box::new(other)),
        }
    }
}

fn unsupported(found: u64, supported: u64) -> String {
    match found > supported {
        true => format!(
            "and this version reads up to {supported}: update the crate that opens it, or use another file"
        ),
        false => format!(
            "which is too old for this version, whose newest is {supported}: use another file, or open it with the \
             version of the crate that wrote it"
        ),
    }
}

/// The reason for aborting a transaction. It is an error of SQLite or of the caller's code.
///
/// The operator `?` converts errors of SQLite and of storages into this type.
#[derive(Debug)]
pub enum Abort<E> {
    /// SQLite returned an error.
    Sqlite(rusqlite::Error),
    /// The caller's code returned an error.
    Own(E),
}

impl<E: From<SqliteError>> Abort<E> {
    /// Converts the reason for the abort into the caller's error type. `path` is the path of the database, for errors.
    pub(crate) fn into_error(self, path: &Path) -> E {
        match self {
            Self::Sqlite(error) => SqliteError::new(path, error).into(),
            Self::Own(error) => error,
        }
    }
}

impl<E> From<rusqlite::Error> for Abort<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<SqliteError> for Abort<SqliteError> {
    fn from(error: SqliteError) -> Self {
        Self::Own(error)
    }
}

impl From<StorageError> for Abort<StorageError> {
    fn from(error: StorageError) -> Self {
        Self::Own(error)
    }
}

impl From<DurableError> for Abort<DurableError> {
    fn from(error: DurableError) -> Self {
        Self::Own(error)
    }
}
