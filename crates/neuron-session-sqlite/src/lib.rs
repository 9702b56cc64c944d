//! Sessions of agents in a SQLite database.
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
//! // One turn more, whatever the session's length. Who was not the last to write is told so.
//! let revision = storage.revision("chat-42").await?;
//! let turn = [Message::user("What is Rust?"), Message::assistant("A language.")];
//! storage.append("chat-42", &turn, None, &revision).await?;
//!
//! assert_eq!(storage.load("chat-42").await?.messages, turn);
//! # Ok(())
//! # }
//! ```
//!
//! # What is written
//!
//! A message is a row. [`append`](neuron_types::VersionedSessionStorage::append) inserts the new ones,
//! at the same cost for a session of ten messages and of ten thousand. `save` and `update` get the
//! whole session: they serialise it, find where it begins to differ from what is stored by comparing
//! digests, and write from there on.
//!
//! Everything that is read is compared with its digest. What was damaged on the disk is
//! [`StorageError::Corrupt`](neuron_types::StorageError::Corrupt) and never a wrong message, and a
//! session whose damage is seen is not written over: [`delete`](neuron_types::SessionStorage::delete)
//! it to begin anew.
//!
//! # What is lost, and backups
//!
//! The database counts its commits, and a small file beside it, the witness (`-witness`), has the number of the last one
//! that was synced. If the log or the database was removed, cut, damaged or replaced by an older copy, opening, loading
//! and writing fail. [`accept_older`] accepts the older state. A database file or log that is deleted or replaced while it
//! is open is an error at the next read or write.
//!
//! The witness costs one more page of the log for each write and no sync. A power failure does not make it wrong. With
//! [`Synchronous::Normal`] commits are not synced, and their loss is not noticed.
//!
//! [`SqliteSessionStorage::backup`] copies the database while others use it. A copy of the database file alone lacks the
//! commits in the log (`-wal`). To restore a backup, stop all processes, remove the database with its `-wal` and `-shm`
//! files, copy the backup to its place, and call [`accept_older`].
//!
//! The index of ids is compared with the sessions once, when the first session is not found. This reads all sessions'
//! rows, and no messages.
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | the storage | [`SqliteSessionStorage`] |
//! | how long to wait for others, what a power failure may take | [`SqliteOptions`] |
//! | what an opened file may be, several processes, executors | [`neuron_sqlite`] |

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod storage;

mod append;
mod load;
mod replace;

mod digest;
mod head;
mod lost_ids;
mod messages;
mod schema;

pub use neuron_sqlite::{SqliteError, SqliteOptions, Synchronous, accept_older};
pub use storage::SqliteSessionStorage;
