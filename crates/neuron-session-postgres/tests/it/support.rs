//! A server, a schema for each test, and a look behind the storage.

use neuron_session_postgres::{PostgresSessionStorage, PostgresSessionStorageBuilder};
use neuron_testkit::postgres::PostgresServer;
use neuron_types::{Message, Session};
use tokio_postgres::{Client, NoTls};

/// A storage in a schema of its own, on the server that all tests share; nothing where there is no
/// PostgreSQL.
pub(crate) async fn storage(schema: &str) -> Option<PostgresSessionStorage> {
    let server = PostgresServer::shared()?;
    Some(in_schema(schema).connect(&server.url("postgres")).await.unwrap())
}

pub(crate) fn in_schema(schema: &str) -> PostgresSessionStorageBuilder {
    PostgresSessionStorage::builder().schema(schema)
}

/// A connection past the storage, as the user who may do everything.
pub(crate) async fn look(server: &PostgresServer) -> Client {
    look_at(&server.url("postgres")).await
}

pub(crate) async fn look_at(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    // Ends with the client.
    tokio::spawn(connection);
    client
}

/// A session with as many messages.
pub(crate) fn session(id: &str, messages: usize) -> Session {
    let mut session = Session::new(id, "/srv/project".into());
    session.messages =
        (0..messages).map(|number| Message::user(format!("message {number}"))).collect();
    session.state.custom.insert("theme".into(), serde_json::json!({"z": 1, "a": [null, "dark"]}));
    session
}
