//! The schema of the tables and its migrations ([`Schema`]).

use neuron_types::StorageError;
use sha2::{Digest as _, Sha256};
use tokio_postgres::types::Type;

use crate::connection::{Connections, Lease};
use crate::error::{self, Error};

/// The migrations in order, starting with version 1. A released migration is never changed, because it was already
/// applied to databases.
const MIGRATIONS: [&str; 1] = [include_str!("schema/1.sql")];

/// Text from which the key of the migration's advisory lock is computed. The keys of other advisory locks are computed
/// from session ids. An empty text is not a valid session id.
const MIGRATION: &str = "";

/// Creates the table of the applied migrations.
const HISTORY: &str = "\
    CREATE TABLE IF NOT EXISTS {schema}.session_migrations (\
        version bigint PRIMARY KEY, \
        applied_at timestamptz NOT NULL DEFAULT now()\
    )";

/// A schema of the database, which is the namespace that contains the tables.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    name: String,
    /// The name as a quoted SQL identifier.
    quoted: String,
}

impl Schema {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), quoted: format!("\"{}\"", name.replace('"', "\"\"")) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Replaces `{schema}` in a statement by the quoted name.
    pub(crate) fn fill(&self, statement: &str) -> String {
        statement.replace("{schema}", &self.quoted)
    }

    /// Migrates the tables to the newest version. Several processes may call this method at the same time.
    pub(crate) async fn migrate(&self, connections: &Connections) -> Result<(), Error> {
        let lease = connections.lease().await?;
        // Usually the tables are up to date. This check needs no lock and no right to create tables.
        if self.pending(&lease, connections.place()).await?.is_empty() {
            lease.give_back();
            return Ok(());
        }
        lease.begin(self.lock_key(MIGRATION)).await?;
        // Another process may have migrated the tables before this process held the lock.
        for (version, migration) in self.pending(&lease, connections.place()).await? {
            if version == 1 {
                self.make(&lease).await?;
            }
            let migrated = lease.client()?.batch_execute(&self.fill(migration)).await;
            migrated
                .map_err(|error| error::of_migration(&self.location(connections.place()), error))?;
            let note = self.fill("INSERT INTO {schema}.session_migrations (version) VALUES ($1)");
            lease.client()?.query_typed(&note, &[(&version, Type::INT8)]).await?;
        }
        lease.commit().await
    }

    /// Names the schema and its database, for error texts.
    fn location(&self, place: &str) -> String {
        format!("schema {} of {place}", self.name)
    }

    /// Returns the migrations that are not applied yet, with their versions. Returns an error if a newer version of
    /// this crate created the tables.
    async fn pending(&self, lease: &Lease, place: &str) -> Result<Vec<(i64, &'static str)>, Error> {
        let found = self.version(lease).await?;
        let supported = MIGRATIONS.len();
        let done = usize::try_from(found).unwrap_or(usize::MAX);
        if done > supported {
            return Err(Error::Storage(StorageError::UnsupportedVersion {
                location: self.location(place),
                found: done as u64,
                supported: supported as u64,
            }));
        }
        Ok((1..).zip(MIGRATIONS).skip(done).collect())
    }

    /// Returns the version of the existing tables, or 0 if no tables exist.
    async fn version(&self, lease: &Lease) -> Result<i64, Error> {
        let client = lease.client()?;
        // Reads the catalogue instead of `to_regclass`, which may return a state from before the lock was taken.
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

    /// Creates the schema and the table of the applied migrations.
    async fn make(&self, lease: &Lease) -> Result<(), Error> {
        let client = lease.client()?;
        // `CREATE SCHEMA IF NOT EXISTS` requires the right to create schemas even if the schema exists.
        let is_there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";
        let row = client.query_typed_one(is_there, &[(&self.name, Type::TEXT)]).await?;
        if !row.try_get::<_, bool>(0)? {
            client.batch_execute(&self.fill("CREATE SCHEMA {schema}")).await?;
        }
        Ok(client.batch_execute(&self.fill(HISTORY)).await?)
    }

    /// Returns the key of an advisory lock. The lock of a session `id` is held while the session is written. The lock
    /// of [`MIGRATION`] is held while the tables are migrated.
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
