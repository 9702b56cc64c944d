//! Converts errors of PostgreSQL and the pool into a [`StorageError`], with a text of one line.

use std::error::Error as StdError;
use std::{fmt, io};

use deadpool_postgres::{PoolError, TimeoutType};
use neuron_types::StorageError;
use tokio_postgres::error::SqlState;

/// An error inside a transaction. It is converted into a [`StorageError`] for the caller of the storage.
#[derive(Debug)]
pub(crate) enum Error {
    /// The server rejected a statement, or the connection failed.
    Postgres(tokio_postgres::Error),
    /// Any other error of the storage.
    Storage(StorageError),
}

impl Error {
    /// Returns `true` if the server aborted the transaction because of concurrent transactions. A retry may then
    /// succeed.
    pub(crate) fn is_transient(&self) -> bool {
        let transient = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        match self {
            Self::Postgres(error) => error.code().is_some_and(|code| transient.contains(code)),
            Self::Storage(_) => false,
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<Error> for StorageError {
    fn from(error: Error) -> Self {
        match error {
            Error::Storage(error) => error,
            Error::Postgres(error) => of_server("PostgreSQL", error),
        }
    }
}

/// Returns an error about invalid settings. The error has no source, because a source could quote the password.
pub(crate) fn settings(reason: &'static str) -> StorageError {
    StorageError::Other(Box::new(Failure { text: format!("PostgreSQL: {reason}"), source: None }))
}

/// Converts an error of the connection pool. `place` names the server and the database.
pub(crate) fn of_pool(place: &str, error: PoolError) -> StorageError {
    let timed_out = |what: &str| {
        let text = format!("{place}: {what}");
        StorageError::Io(io::Error::new(io::ErrorKind::TimedOut, Failure { text, source: None }))
    };
    match error {
        PoolError::Backend(error) => of_server(&format!("cannot connect to {place}"), error),
        PoolError::Timeout(TimeoutType::Wait) => {
            timed_out("all connections of the pool are in use, and none became free in time")
        }
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
            timed_out("the server did not answer in time")
        }
        other => {
            let text = format!("cannot connect to {place}: {other}");
            StorageError::Other(Box::new(Failure { text, source: Some(other.into()) }))
        }
    }
}

/// Converts an error of a migration. `location` names the schema. A table that exists before its migration belongs to
/// another application.
pub(crate) fn of_migration(location: &str, error: tokio_postgres::Error) -> Error {
    if error.code() != Some(&SqlState::DUPLICATE_TABLE) {
        return error.into();
    }
    let what = format!(
        "{location} has tables of another application: use another schema \
         (`PostgresSessionStorage::builder().schema(..)`)"
    );
    of_server(&what, error).into()
}

/// Converts an error of the server or the connection. `what` names the failed operation. Returns [`StorageError::Io`]
/// for a lost connection, and [`StorageError::Other`] for any other error.
fn of_server(what: &str, error: tokio_postgres::Error) -> StorageError {
    let kind = lost_connection(&error);
    // The server's own message names the cause, and the SQLSTATE can be looked up.
    let text = match error.as_db_error() {
        Some(refusal) => format!("{what}: {} ({})", refusal.message(), refusal.code().code()),
        None => format!("{what}: {}", whole_text(&error)),
    };
    let failure = Failure { text, source: Some(error.into()) };
    match kind {
        Some(kind) => StorageError::Io(io::Error::new(kind, failure)),
        None => StorageError::Other(Box::new(failure)),
    }
}

/// Returns the kind of I/O error if the error means that the connection is lost. Returns `None` for any other error.
fn lost_connection(error: &tokio_postgres::Error) -> Option<io::ErrorKind> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    // SQLSTATE 08… is a connection error. With 57P01 to 57P05 the server ends the connection or does not accept one
    // yet.
    let is_lost =
        |code: &SqlState| code.code().starts_with("08") || code.code().starts_with("57P0");
    let is_lost = error.is_closed() || error.code().is_some_and(is_lost);
    is_lost.then_some(io::ErrorKind::ConnectionAborted)
}

/// Returns the text of an error, followed by the texts of all its causes. The `Display` text of a
/// [`tokio_postgres::Error`] alone does not contain the causes.
fn whole_text(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// An error with an optional source, whose text is one line.
#[derive(Debug)]
struct Failure {
    text: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
