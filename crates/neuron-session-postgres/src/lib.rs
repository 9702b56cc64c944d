//! Stores agent sessions in PostgreSQL ([`PostgresSessionStorage`]).
//!
//! The storage is for services whose instances share one database. It writes only the new messages of a turn.
//! [`update`](neuron_types::VersionedSessionStorage::update) and
//! [`append`](neuron_types::VersionedSessionStorage::append) return an error if another instance has changed the
//! session meanwhile.
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
//! // Appends the next turn. This writes two rows, regardless of the length of the conversation.
//! let turn = [Message::assistant("A language."), Message::user("For what?")];
//! let next = storage.append("chat-42", &turn, None, &revision).await?;
//! assert_eq!(storage.load("chat-42").await?.messages.len(), 3);
//!
//! // The session has changed since `revision`. The append returns a conflict and writes nothing.
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
//! | the storage, its guarantees and its tables | [`PostgresSessionStorage`] |
//! | schema, pool size, timeouts, TLS, or your own pool | [`PostgresSessionStorageBuilder`] |
//! | operations of session storages | [`SessionStorage`](neuron_types::SessionStorage), [`VersionedSessionStorage`](neuron_types::VersionedSessionStorage) |
//!
//! # TLS
//!
//! No TLS implementation is built in, so you can choose one. Pass a connector to
//! [`PostgresSessionStorageBuilder::connect_tls`], for example from `tokio-postgres-rustls` or `postgres-native-tls`.
//! Without a connector the connection is not encrypted, and an address with `sslmode=require` is an error.

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

/// The crate of the pool that [`PostgresSessionStorageBuilder::pool`] accepts, in the matching version.
pub use deadpool_postgres;
