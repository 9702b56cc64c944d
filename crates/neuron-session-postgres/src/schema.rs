//! The tables and their migrations.

use neuron_types::StorageError;
use sha2::{Digest as _, Sha256};
use tokio_postgres::types::Type;

use crate::connection::{Connections, Lease};
use crate::error::Error;

/// The migrations from version to version, beginning with version 1. A released migration never changes, because
/// databases have it.
const MIGRATIONS: [&str; 1] = [include_str!("schema/1.sql")];

/// Id that is locked during a migration. No session may have it.
const MIGRATION: &str = "";

/// Which of them a database has had.
const HISTORY: &str = "\
    CREATE TABLE IF NOT EXISTS {schema}.session_migrations (\
        version bigint PRIMARY KEY, \
        applied_at timestamptz NOT NULL DEFAULT now()\
    )";

/// A schema of a database, which is a prefix of the tables' names.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    name: String,
    /// As SQL writes it.
    quoted: String,
}

impl Schema {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), quoted: format!("\"{}\"", name.replace('"', "\"\"")) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Puts the schema into a statement, where that has `{schema}`.
    pub(crate) fn fill(&self, statement: &str) -> String {
        statement.replace("{schema}", &self.quoted)
    }

    /// Brings the tables to the newest version. Several processes may do that at the same time.
    pub(crate) async fn migrate(&self, connections: &Connections) -> Result<(), Error> {
        let lease = connections.lease().await?;
        // First without any lock and any right to make tables: mostly all is there.
        if self.pending(&lease, connections.place()).await?.is_empty() {
            lease.give_back();
            return Ok(());
        }
        lease.begin(self.lock_key(MIGRATION)).await?;
        // Another process may have been faster.
        for (version, migration) in self.pending(&lease, connections.place()).await? {
            if version == 1 {
                self.make(&lease).await?;
            }
            lease.client()?.batch_execute(&self.fill(migration)).await?;
            let note = self.fill("INSERT INTO {schema}.session_migrations (version) VALUES ($1)");
            lease.client()?.query_typed(&note, &[(&version, Type::INT8)]).await?;
        }
        lease.commit().await
    }

    /// The migrations that the database has not had, with the version that each makes.
    async fn pending(&self, lease: &Lease, place: &str) -> Result<Vec<(i64, &'static str)>, Error> {
        let found = self.version(lease).await?;
        let supported = MIGRATIONS.len();
        let done = usize::try_from(found).unwrap_or(usize::MAX);
        if done > supported {
            return Err(Error::Storage(StorageError::UnsupportedVersion {
                location: format!("schema {} of {place}", self.name),
                found: done as u64,
                supported: supported as u64,
            }));
        }
        Ok((1..).zip(MIGRATIONS).skip(done).collect())
    }

    /// The version of the tables, zero when there are none.
    async fn version(&self, lease: &Lease) -> Result<i64, Error> {
        let client = lease.client()?;
        // Out of the catalogue, and not by `to_regclass`: that may answer from before the lock was taken.
        let is_there = "SELECT EXISTS (\
            SELECT FROM pg_catalog.pg_class \
            JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace \
            WHERE nspname = $1 AND relname = 'session_migrations')";
        let row = client.query_typed_one(is_there, &[(&self.name, Type::TEXT)]).await?;
        if !row.try_get::<_, bool>(0)? {
            return Ok(0);
        }
        let newest = self.fill("SELECT coalesce(max(version), 0) FROM {schema}.session_migrations");
        Ok(client.query_typed_one(&newest, &[]).await?.try_get(0)?)
    }

    /// Makes the schema and the table of its migrations.
    async fn make(&self, lease: &Lease) -> Result<(), Error> {
        let client = lease.client()?;
        // `IF NOT EXISTS` asks for the right to make schemas also where there is nothing to make.
        let is_there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";
        let row = client.query_typed_one(is_there, &[(&self.name, Type::TEXT)]).await?;
        if !row.try_get::<_, bool>(0)? {
            client.batch_execute(&self.fill("CREATE SCHEMA {schema}")).await?;
        }
        Ok(client.batch_execute(&self.fill(HISTORY)).await?)
    }

    /// The key of the lock that is held while a session is written, or the tables are migrated.
    pub(crate) fn lock_key(&self, id: &str) -> i64 {
        let hash = Sha256::new()
            .chain_update("neuron sessions\0")
            .chain_update(&self.name)
            .chain_update("\0")
            .chain_update(id)
            .finalize();
        hash.iter().take(8).fold(0, |key, byte| key << 8 | i64::from(*byte))
    }
}
