//! The SQLite storage, and the plain insert with which the storage is compared.

use std::path::Path;
use std::time::{Duration, Instant};

use neuron_session_sqlite::SqliteSessionStorage;
use neuron_types::StorageError;
use rusqlite::{Connection, TransactionBehavior};

use super::{message, texts, turn};

/// Opens a SQLite session storage in `folder`.
///
/// # Errors
///
/// Returns the error of the storage.
pub async fn storage(folder: &Path) -> Result<SqliteSessionStorage, StorageError> {
    SqliteSessionStorage::open(folder.join("sessions.db")).await
}

/// A SQLite database with one table of texts, and with the same settings as the storage.
#[derive(Debug)]
pub struct Floor {
    connection: Connection,
    bodies: Vec<String>,
}

impl Floor {
    /// Creates a database in `folder`, whose table has `length` messages.
    ///
    /// # Errors
    ///
    /// Returns the error of SQLite or of the JSON encoder.
    pub fn new(folder: &Path, length: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let mut connection = Connection::open(folder.join("floor.db"))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             CREATE TABLE texts (id INTEGER PRIMARY KEY, body TEXT NOT NULL)",
        )?;
        let bodies = texts(turn())?;
        let transaction = connection.transaction()?;
        for body in texts((0..length).map(message))? {
            transaction.execute("INSERT INTO texts (body) VALUES (?1)", [body])?;
        }
        transaction.commit()?;
        Ok(Self { connection, bodies })
    }

    /// Inserts the messages of a turn in one transaction, and returns the duration.
    ///
    /// # Errors
    ///
    /// Returns the error of SQLite.
    pub fn insert(&mut self) -> rusqlite::Result<Duration> {
        let start = Instant::now();
        let immediate = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(immediate)?;
        let mut insert = transaction.prepare_cached("INSERT INTO texts (body) VALUES (?1)")?;
        for body in &self.bodies {
            insert.execute([body])?;
        }
        drop(insert);
        transaction.commit()?;
        Ok(start.elapsed())
    }
}
