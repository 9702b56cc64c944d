//! Sessions of AI agents in PostgreSQL.
//!
//! A [`PostgresSessionStorage`] keeps the conversations of a service whose instances share one
//! database. It appends the new messages of a turn instead of rewriting the conversation, and notices
//! when two instances write one session at the same time.
//!
//! ```
//! use neuron_session_postgres::PostgresSessionStorage;
//! use neuron_types::{Message, Session, SessionStorage, StorageError, VersionedSessionStorage};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), StorageError> {
//! # let Some(server) = neuron_testkit::postgres::PostgresServer::shared() else { return Ok(()) };
//! # let url = server.url("postgres");
//! // let url = "postgres://agent:password@db.example.org/agents";
//! let storage = PostgresSessionStorage::connect(&url).await?;
//!
//! let mut session = Session::new("chat-42", ".".into());
//! session.messages.push(Message::user("What is Rust?"));
//! let revision = storage.create(&session).await?;
//!
//! // A turn later: writes two rows, however long the conversation is.
//! let turn = [Message::assistant("A language."), Message::user("For what?")];
//! let next = storage.append("chat-42", &turn, None, &revision).await?;
//! assert_eq!(storage.load("chat-42").await?.messages.len(), 3);
//!
//! // Who knows an older version is told so, and nothing is written.
//! let late = storage.append("chat-42", &turn, None, &revision).await;
//! assert!(matches!(late, Err(StorageError::Conflict { .. })));
//! assert_eq!(storage.revision("chat-42").await?, next);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | the storage, what it promises, and its tables | [`PostgresSessionStorage`] |
//! | its schema, the size of its pool, time limits, TLS, a pool of your own | [`PostgresSessionStorageBuilder`] |
//! | what a storage of sessions can do | [`SessionStorage`](neuron_types::SessionStorage), [`VersionedSessionStorage`](neuron_types::VersionedSessionStorage) |
//!
//! # TLS
//!
//! None is built in, so that you choose the implementation and the certificates:
//! [`PostgresSessionStorageBuilder::connect_tls`] takes a connector, of `tokio-postgres-rustls` or
//! `postgres-native-tls` for instance. Without one the connection is not encrypted, and an address with
//! `sslmode=require` is refused.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod builder;
mod storage;

mod history;
mod revision;
mod statements;

mod connection;
mod error;
mod schema;

pub use builder::PostgresSessionStorageBuilder;
pub use storage::PostgresSessionStorage;

/// The pool that [`PostgresSessionStorageBuilder::pool`] takes, so that its version is the right one.
pub use deadpool_postgres;
