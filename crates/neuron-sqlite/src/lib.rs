//! The SQLite layer of neuron's storages. It opens, checks and migrates databases. It runs their blocking calls outside
//! of the async executor.
//!
//! The crate is for authors of storages. Users of a storage need only [`SqliteOptions`] and [`SqliteError`].
//!
//! ```
//! use neuron_sqlite::{Database, Schema, SqliteError, SqliteOptions};
//!
//! /// What the database holds. Versions are added at the end and never changed.
//! const NOTES: Schema = Schema {
//!     application: "notes",
//!     application_id: 0x6e6f_7465,
//!     migrations: &["CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT"],
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("notes.db");
//! let notes = Database::open(path, NOTES, SqliteOptions::new()).await?;
//! notes
//!     .write::<_, SqliteError>(|transaction| {
//!         transaction.execute("INSERT INTO notes (body) VALUES (?1)", ["Buy milk"])?;
//!         Ok(())
//!     })
//!     .await?;
//! let count: i64 = notes
//!     .read::<_, SqliteError>(|transaction| {
//!         Ok(transaction.query_one("SELECT count(*) FROM notes", [], |row| row.get(0))?)
//!     })
//!     .await?;
//! assert_eq!(count, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | reading, writing and backing up a database | [`Database`] |
//! | accepting that commits were lost | [`accept_older`] |
//! | the tables and their migrations | [`Schema`] |
//! | options of a database | [`SqliteOptions`], [`Synchronous`] |
//! | errors | [`SqliteError`], and [`Abort`] inside a transaction |
//!
//! # Checks before a file is used
//!
//! A file is not changed if it is not a SQLite database, belongs to another application, was written by a newer
//! version, is cut short, or may not be written. The error names the reason. An empty file counts as a new database.
//!
//! # Lost commits and backups
//!
//! If the write-ahead log is missing or damaged, SQLite silently continues with an earlier state. A database that was
//! opened with [`Database::open_witnessed`] detects such a loss. [`accept_older`] accepts the loss.
//! [`Database::backup`] writes a copy while the database is in use.
//!
//! On Unix each transaction checks that the paths of the database and its log still name the open files, and that the
//! database has no other hard link. On Windows an open file cannot be deleted or replaced.
//!
//! On Unix, only the owner can read a new database, its other files and its backups (mode 0600). An existing database
//! keeps its mode, and its other files get the same mode.
//!
//! # Several processes
//!
//! Any number of processes on one machine may use a database at the same time. SQLite's write-ahead log allows reads
//! during a write. Writers wait for each other, at most for [`SqliteOptions::busy_timeout`]. A network file system is
//! not supported.
//!
//! # Executors
//!
//! Inside a tokio runtime all blocking work runs on the runtime's blocking threads. Outside of a runtime it runs on the
//! calling thread.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod database;
mod descriptors;
mod options;
mod schema;

mod backup;
mod connection;
mod header;
mod off_executor;
mod open_files;
mod witness;
mod writes;

mod error;

pub use database::Database;
pub use error::{Abort, SqliteError};
pub use options::{SqliteOptions, Synchronous};
pub use schema::Schema;
pub use witness::accept_older;

/// The version of rusqlite whose types occur in this crate's signatures.
pub use rusqlite;
