//! Connections out of the pool, and back into it only in a state that is known.

use deadpool_postgres::{Object, Pool};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::error::{self, Error};

/// Begins a transaction whose locks end with its client. A client that hangs or is disconnected must not keep
/// others from a session.
///
/// Whatever the database's default: each statement is to see what others have committed.
const BEGIN: &str = "START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; \
                     SET LOCAL idle_in_transaction_session_timeout = '60s'";

/// The pool, and what errors call the place that it leads to.
#[derive(Clone)]
pub(crate) struct Connections {
    pool: Pool,
    place: String,
}

impl Connections {
    pub(crate) fn new(pool: Pool, place: String) -> Self {
        Self { pool, place }
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Returns the number of connections and its maximum.
    pub(crate) fn size(&self) -> (usize, usize) {
        let status = self.pool.status();
        (status.size, status.max_size)
    }

    /// Waits for a connection.
    pub(crate) async fn lease(&self) -> Result<Lease, Error> {
        match self.pool.get().await {
            Ok(connection) => Ok(Lease(Some(connection))),
            Err(error) => Err(error::of_pool(&self.place, error).into()),
        }
    }
}

/// A connection of the pool for one piece of work.
///
/// When the work is complete it is [given back](Self::give_back). Dropped before, because the work
/// failed or its future was dropped, it is closed: there may be an open transaction, or the server may
/// not answer any more, and the next user of the pool must meet neither.
pub(crate) struct Lease(Option<Object>);

impl Lease {
    /// The connection.
    pub(crate) fn client(&self) -> Result<&Client, Error> {
        match &self.0 {
            Some(connection) => Ok(connection),
            None => Err(error::settings("the connection was given back").into()),
        }
    }

    /// Begins a transaction, and waits until no other one has this key.
    pub(crate) async fn begin(&self, key: i64) -> Result<(), Error> {
        let client = self.client()?;
        client.batch_execute(BEGIN).await?;
        let lock = "SELECT pg_catalog.pg_advisory_xact_lock($1)";
        client.query_typed(lock, &[(&key, Type::INT8)]).await?;
        Ok(())
    }

    pub(crate) async fn commit(self) -> Result<(), Error> {
        self.client()?.batch_execute("COMMIT").await?;
        self.give_back();
        Ok(())
    }

    pub(crate) async fn roll_back(self) -> Result<(), Error> {
        self.client()?.batch_execute("ROLLBACK").await?;
        self.give_back();
        Ok(())
    }

    pub(crate) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(Object::take(connection));
        }
    }
}
