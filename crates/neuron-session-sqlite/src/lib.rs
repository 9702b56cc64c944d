//! Stores agent sessions in a SQLite database ([`SqliteSessionStorage`]).
//!
//! ```
//! use neuron_session_sqlite::SqliteSessionStorage;
//! use neuron_types::{Message, Session, SessionStorage, VersionedSessionStorage};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("sessions.db");
//! let storage = SqliteSessionStorage::open(path).await?;
//! storage.save(&Session::new("chat-42", ".".into())).await?;
//!
//! // Appends one turn. The cost does not depend on the length of the session. Returns `StorageError::Conflict` if
//! // another writer has changed the session since `revision` was read.
//! let revision = storage.revision("chat-42").await?;
//! let turn = [Message::user("What is Rust?"), Message::assistant("A language.")];
//! storage.append("chat-42", &turn, None, &revision).await?;
//!
//! assert_eq!(storage.load("chat-42").await?.messages, turn);
//! # Ok(())
//! # }
//! ```
//!
//! # Stored data
//!
//! Each message is one row. [`append`](neuron_types::VersionedSessionStorage::append) inserts only the new messages, so
//! its cost does not depend on the length of the session. `save` and `update` receive the whole session. They use
//! digests to find the first message that differs from the stored session, and write only the messages from there on.
//!
//! Everything that is read is verified by a digest. Damaged data is reported as
//! [`StorageError::Corrupt`](neuron_types::StorageError::Corrupt) and never returned. A session whose damage was
//! detected is not overwritten. To reuse its id, [`delete`](neuron_types::SessionStorage::delete) the session first.
//!
//! # Lost commits and backups
//!
//! The database counts its commits. A small file beside it, the witness (`-witness`), contains the number of the last
//! synced commit. If the write-ahead log or the database was deleted, cut, damaged or replaced by an older copy,
//! opening, loading and writing return an error. [`accept_older`] accepts the older state. If the database file or its
//! log is deleted or replaced while it is open, the next read or write returns an error.
//!
//! The witness costs one additional page in the log for each write, and no sync. It stays correct after a power
//! failure. With [`Synchronous::Normal`] commits are not synced, and their loss is not detected.
//!
//! [`SqliteSessionStorage::backup`] copies the database while it is in use. A copy of the database file alone lacks the
//! commits in the log (`-wal`). To restore a backup, stop all processes, delete the database with its `-wal` and `-shm`
//! files, copy the backup to its place, and call [`accept_older`].
//!
//! When a session is not found for the first time, the index of ids is checked for missing sessions. This reads the
//! rows of all sessions once, but no messages.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | the storage | [`SqliteSessionStorage`] |
//! | timeouts and durability | [`SqliteOptions`] |
//! | accepted files, several processes, executors | [`neuron_sqlite`] |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod storage;

mod append;
mod load;
mod replace;

mod digest;
mod lost_ids;
mod messages;
mod schema;
mod session_row;

pub use neuron_sqlite::{SqliteError, SqliteOptions, Synchronous, accept_older};
pub use storage::SqliteSessionStorage;
