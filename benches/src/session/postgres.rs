//! The PostgreSQL storage, and the plain insert with which the storage is compared.

use std::error::Error;
use std::time::{Duration, Instant};

use neuron_session_postgres::PostgresSessionStorage;
use neuron_session_postgres::deadpool_postgres::tokio_postgres::{
    Client, NoTls, Statement, connect,
};
use neuron_testkit::postgres::PostgresServer;
use neuron_types::StorageError;

use super::{message, texts, turn};

/// Connects a session storage to a server. Each `length` of sessions has its own database schema.
///
/// # Errors
///
/// Returns the error of the storage.
pub async fn storage(
    server: &PostgresServer,
    length: usize,
) -> Result<PostgresSessionStorage, StorageError> {
    let schema = format!("sessions_{length}");
    PostgresSessionStorage::builder().schema(schema).connect(&server.url("postgres")).await
}

/// A connection to a database with one table of texts, for the plain inserts with which the storage is compared.
#[derive(Debug)]
pub struct Floor {
    client: Client,
    insert: Statement,
    bodies: Vec<String>,
}

impl Floor {
    /// Connects to the server, and creates the table with `length` messages.
    ///
    /// # Errors
    ///
    /// Returns the error of the server or of the JSON encoder.
    pub async fn new(server: &PostgresServer, length: usize) -> Result<Self, Box<dyn Error>> {
        let (client, connection) = connect(&server.url("postgres"), NoTls).await?;
        tokio::spawn(connection);
        let table = format!("texts_{length}");
        client
            .batch_execute(&format!("CREATE TABLE {table} (id bigserial PRIMARY KEY, body text)"))
            .await?;
        let insert = format!("INSERT INTO {table} (body) SELECT unnest($1::text[])");
        let insert = client.prepare(&insert).await?;
        client.execute(&insert, &[&texts((0..length).map(message))?]).await?;
        Ok(Self { client, insert, bodies: texts(turn())? })
    }

    /// Inserts the messages of a turn with one statement, and returns the duration.
    ///
    /// # Errors
    ///
    /// Returns the error of the server.
    pub async fn insert(&mut self) -> Result<Duration, Box<dyn Error>> {
        let start = Instant::now();
        self.client.execute(&self.insert, &[&self.bodies]).await?;
        Ok(start.elapsed())
    }
}
