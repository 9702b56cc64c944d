//! The SQLite layer of neuron's storages, which opens, checks and migrates databases and runs calls off the
//! executor.
//!
//! It is for those who write a storage. Users of one see [`SqliteOptions`] and [`SqliteError`] alone.
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
//! | a database: reading, writing, space, backups | [`Database`] |
//! | a loss that is wanted | [`accept_older`] |
//! | what is in it, and how it changes between versions | [`Schema`] |
//! | how it is opened | [`SqliteOptions`], [`Synchronous`] |
//! | what goes wrong | [`SqliteError`], and [`Abort`] within a transaction |
//!
//! # What is checked before a file is touched
//!
//! A file that is no SQLite database, is another application's, was written by a newer version, is
//! cut short or may not be written gives an error that says so, and is left as it is. An empty file
//! is taken for a database that was never written.
//!
//! # What is lost
//!
//! SQLite takes a log that is missing or damaged for an earlier state. [`Database::open_witnessed`] opens a database
//! that notices the loss, and [`accept_older`] accepts it. [`Database::backup`] writes a copy while others use the
//! database.
//!
//! On Unix each transaction checks that the paths of the database and its log lead to the open files, and that the
//! database has no other hard link. On Windows nobody can delete or replace a file that SQLite has open.
//!
//! # Several processes
//!
//! Any number of processes on one machine may use a file at the same time: SQLite's write-ahead log
//! lets them read beside one writer, and writers wait for each other, up to
//! [`SqliteOptions::busy_timeout`]. It does not work over a network file system.
//!
//! # Executors
//!
//! Within a tokio runtime everything that blocks runs on the threads that the runtime has for it.
//! Outside of one it runs on the calling thread.

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

/// The version of rusqlite whose types are in the signatures here.
pub use rusqlite;
