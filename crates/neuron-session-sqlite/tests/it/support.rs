//! Helpers for the tests, which create sessions and databases.

use std::path::{Path, PathBuf};

use neuron_session_sqlite::SqliteSessionStorage;
use neuron_types::{Message, Session, StorageError};
use rusqlite::Connection;
use tempfile::TempDir;

/// Returns the path of a database in a temporary folder. The folder is deleted when the first value is dropped.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.db");
    (folder, path)
}

pub(crate) async fn open(path: &Path) -> SqliteSessionStorage {
    SqliteSessionStorage::open(path).await.unwrap()
}

/// Creates a session with this number of messages.
pub(crate) fn session(id: &str, messages: usize) -> Session {
    let mut session = Session::new(id, "/srv".into());
    session.messages = (0..messages).map(message).collect();
    session
}

pub(crate) fn message(index: usize) -> Message {
    let text = format!("{index}: {}", "All human beings are born free and equal. ".repeat(3));
    match index % 2 {
        0 => Message::user(text),
        _ => Message::assistant(text),
    }
}

/// Asserts that a loaded session is either equal to `expected` or reported as damaged. Returns `true` if it is equal.
#[track_caller]
pub(crate) fn same_or_corrupt(loaded: Result<Session, StorageError>, expected: &Session) -> bool {
    match loaded {
        Ok(loaded) => {
            assert!(loaded == *expected, "another session was loaded");
            true
        }
        Err(StorageError::Corrupt { .. }) => false,
        Err(other) => panic!("{other:?}"),
    }
}

/// Returns the number that an SQL query selects, on a separate connection.
pub(crate) fn look(path: &Path, sql: &str) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Runs an SQL statement on a separate connection.
pub(crate) fn run(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}
