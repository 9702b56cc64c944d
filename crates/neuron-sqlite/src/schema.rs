//! The schema of a database with its migrations ([`Schema`]).

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::SqliteError;

/// The schema of a database, with a migration for each version.
///
/// SQLite's `user_version` stores the version of the database, and its `application_id` identifies the application.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Name of the application for errors, for example `neuron sessions`.
    pub application: &'static str,
    /// Number that identifies databases of this application. It must not be 0, which other databases have by default.
    pub application_id: i32,
    /// The migrations, in order. The statements at index `n` migrate version `n` to version `n + 1`. Version 0 is the
    /// empty database. Add new migrations at the end, and never change a released one.
    ///
    /// Empty texts at the beginning stand for versions that no database has any more. An empty database is migrated
    /// directly to the version after them. A database of such a version is not supported.
    ///
    /// Each migration runs in its own transaction. Foreign keys are not enforced during a migration, so that it can
    /// rebuild a table. They are checked at the end of the migration.
    pub migrations: &'static [&'static str],
}

impl Schema {
    /// Returns the newest version, which is the number of migrations.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.migrations.len() as u64
    }

    /// Returns the number of versions that are not supported any more.
    fn dropped(&self) -> usize {
        self.migrations.iter().take_while(|migration| migration.is_empty()).count()
    }

    /// Migrates a database to the newest version. Processes that do so at the same time wait for each other.
    pub(crate) fn apply(
        &self,
        connection: &mut Connection,
        path: &Path,
    ) -> Result<(), SqliteError> {
        let fail = |error| SqliteError::new(path, error);
        // An up-to-date database needs no lock.
        if self.current_version(connection, path)? == self.migrations.len() {
            return Ok(());
        }
        connection.pragma_update(None, "foreign_keys", false).map_err(fail)?;
        while self.step(connection, path)? {}
        connection.pragma_update(None, "foreign_keys", true).map_err(fail)
    }

    /// Runs the next migration. Returns `false` if the database already has the newest version.
    fn step(&self, connection: &mut Connection, path: &Path) -> Result<bool, SqliteError> {
        let fail = |error| SqliteError::new(path, error);
        let is_empty = self.current_version(connection, path)? == 0;
        let behavior = match is_empty {
            true => TransactionBehavior::Deferred,
            false => TransactionBehavior::Immediate,
        };
        let transaction = connection.transaction_with_behavior(behavior).map_err(fail)?;
        if is_empty {
            // Allows returning free pages to the file system later. This pragma starts the write, so it must come
            // first. It runs inside the transaction, so that the file never exists without the application id.
            transaction.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(fail)?;
        }
        // The version is read again, because another process may have migrated before this transaction held the lock.
        let stored = self.stored_version(&transaction, path)?;
        let from = stored.max(self.dropped());
        let Some(migration) = self.migrations.get(from) else {
            return Ok(false);
        };
        transaction.execute_batch(migration).map_err(fail)?;
        transaction.pragma_update(None, "user_version", from as i64 + 1).map_err(fail)?;
        transaction.pragma_update(None, "application_id", self.application_id).map_err(fail)?;
        let is_broken =
            transaction.prepare("PRAGMA foreign_key_check").and_then(|mut rows| rows.exists([]));
        if is_broken.map_err(fail)? {
            let reason = format!(
                "its rows violate foreign keys after the migration to version {}",
                from + 1
            );
            return Err(SqliteError::Corrupt { path: path.into(), reason, source: None });
        }
        transaction.commit().map_err(fail)?;
        Ok(true)
    }

    /// Returns the current version of an open database, or 0 for an empty one. Returns an error if the database belongs
    /// to another application or has a version that is not supported.
    fn current_version(
        &self,
        connection: &mut Connection,
        path: &Path,
    ) -> Result<usize, SqliteError> {
        // The transaction makes the two pragmas read the same state.
        let transaction =
            connection.transaction().map_err(|error| SqliteError::new(path, error))?;
        self.stored_version(&transaction, path)
    }

    /// Returns the version that is stored in a database, or 0 for an empty one. Call it inside a transaction.
    fn stored_version(&self, connection: &Connection, path: &Path) -> Result<usize, SqliteError> {
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        let fail = |error| SqliteError::new(path, error);
        let application_id = pragma("application_id").map_err(fail)?;
        let version = pragma("user_version").map_err(fail)?;
        let is_empty = || {
            let sql = "SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)";
            connection.query_one(sql, [], |row| row.get::<_, bool>(0))
        };
        if application_id == 0 && version == 0 && is_empty().map_err(fail)? {
            return Ok(0);
        }
        self.check(application_id, version, path)
    }

    /// Returns the version of a database that is not empty. Returns an error if the application id or the version is
    /// not supported.
    pub(crate) fn check(
        &self,
        application_id: i32,
        version: i32,
        path: &Path,
    ) -> Result<usize, SqliteError> {
        if application_id != self.application_id {
            return Err(SqliteError::OtherApplication {
                path: path.into(),
                found: application_id,
                expected: self.application,
            });
        }
        let supported = self.dropped() + 1..=self.migrations.len();
        match usize::try_from(version) {
            Ok(version) if supported.contains(&version) => Ok(version),
            Ok(version @ 1..) => Err(SqliteError::UnsupportedVersion {
                path: path.into(),
                found: version as u64,
                supported: self.version(),
            }),
            _ => Err(SqliteError::Corrupt {
                path: path.into(),
                reason: format!("its schema has the version {version}"),
                source: None,
            }),
        }
    }
}
