//! Helpers for the tests. All tests share a server, and each test uses its own schema.

use neuron_session_postgres::{PostgresSessionStorage, PostgresSessionStorageBuilder};
use neuron_testkit::postgres::PostgresServer;
use neuron_types::{Message, Session};
use tokio_postgres::{Client, NoTls};

/// Opens a storage in a separate schema on the server that all tests share. Returns `None` if PostgreSQL is not
/// installed.
pub(crate) async fn storage(schema: &str) -> Option<PostgresSessionStorage> {
    let server = PostgresServer::shared()?;
    Some(in_schema(schema).connect(&server.url("postgres")).await.unwrap())
}

pub(crate) fn in_schema(schema: &str) -> PostgresSessionStorageBuilder {
    PostgresSessionStorage::builder().schema(schema)
}

/// Opens a database connection to the server as the superuser. The connection does not belong to a storage.
pub(crate) async fn look(server: &PostgresServer) -> Client {
    look_at(&server.url("postgres")).await
}

pub(crate) async fn look_at(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    // The connection's task ends when the client is dropped.
    tokio::spawn(connection);
    client
}

/// Creates a session with the id `id` and the number of messages `messages`.
pub(crate) fn session(id: &str, messages: usize) -> Session {
    let mut session = Session::new(id, "/srv/project".into());
    session.messages =
        (0..messages).map(|number| Message::user(format!("message {number}"))).collect();
    session.state.custom.insert("theme".into(), serde_json::json!({"z": 1, "a": [null, "dark"]}));
    session
}
