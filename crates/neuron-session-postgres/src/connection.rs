//! Leases connections from the connection pool ([`Connections`]). A connection returns to the pool only if it has no
//! open transaction and the server responds.

use deadpool_postgres::{Object, Pool};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::error::{self, Error};

/// Begins a transaction. The server aborts it if the client sends nothing for 60 seconds. Otherwise a hanging client
/// could hold the locks of a session for ever.
///
/// The isolation level does not depend on the server's default. Each statement must see all changes that were committed
/// before it.
const BEGIN: &str = "START TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; \
                     SET LOCAL idle_in_transaction_session_timeout = '60s'";

/// The connection pool, and the name of the server and the database for error texts.
#[derive(Clone)]
pub(crate) struct Connections {
    pool: Pool,
    place: String,
}

impl Connections {
    pub(crate) fn new(pool: Pool, place: String) -> Self {
        Self { pool, place }
    }

    /// Returns the name of the server and the database, for error texts.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Returns the number of open connections and the maximum number of connections.
    pub(crate) fn size(&self) -> (usize, usize) {
        let status = self.pool.status();
        (status.size, status.max_size)
    }

    /// Waits for a free connection of the pool, or opens a new one. Returns an error if this takes longer than the
    /// pool's timeout.
    pub(crate) async fn lease(&self) -> Result<Lease, Error> {
        match self.pool.get().await {
            Ok(connection) => Ok(Lease(Some(connection))),
            Err(error) => Err(error::of_pool(&self.place, error).into()),
        }
    }
}

/// A connection of the pool, leased for one call of the storage.
///
/// After a successful call, [`give_back`](Self::give_back) returns the connection to the pool. If the call fails or its
/// future is dropped, the lease is dropped, which closes the connection. Later calls must not use such a connection,
/// because it may have an open transaction or an unresponsive server.
pub(crate) struct Lease(Option<Object>);

impl Lease {
    /// Returns the client of the connection. Returns an error after the connection was returned to the pool.
    pub(crate) fn client(&self) -> Result<&Client, Error> {
        match &self.0 {
            Some(connection) => Ok(connection),
            None => Err(error::settings("the connection was given back").into()),
        }
    }

    /// Begins a transaction and waits for the advisory lock with the key `key`. The transaction holds the lock until it
    /// ends.
    pub(crate) async fn begin(&self, key: i64) -> Result<(), Error> {
        let client = self.client()?;
        client.batch_execute(BEGIN).await?;
        let lock = "SELECT pg_catalog.pg_advisory_xact_lock($1)";
        client.query_typed(lock, &[(&key, Type::INT8)]).await?;
        Ok(())
    }

    /// Commits the transaction and returns the connection to the pool.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        self.client()?.batch_execute("COMMIT").await?;
        self.give_back();
        Ok(())
    }

    /// Undoes the transaction and returns the connection to the pool.
    pub(crate) async fn roll_back(self) -> Result<(), Error> {
        self.client()?.batch_execute("ROLLBACK").await?;
        self.give_back();
        Ok(())
    }

    /// Returns the connection to the pool, for the next call.
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
