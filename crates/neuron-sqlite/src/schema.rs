//! The schema of a database by version, and migrations.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::SqliteError;

/// The schema of a database, with a migration for each version.
///
/// The version is SQLite's `user_version`, and the application SQLite's `application_id`.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Purpose of the database for errors, for example `neuron sessions`.
    pub application: &'static str,
    /// Tells this application's databases from all others. Not 0, which is that of those that say
    /// nothing.
    pub application_id: i32,
    /// The statements that lead from version `n` to `n + 1`, from the empty database on. What was
    /// released is never changed: add at the end.
    ///
    /// Each runs in a transaction of its own. Foreign keys are not enforced in it, so that a table
    /// can be rebuilt, and are checked at its end.
    pub migrations: &'static [&'static str],
}

impl Schema {
    /// The newest version, which this program writes.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.migrations.len() as u64
    }

    /// Brings a database up to date. Processes that do it at the same time wait for each other.
    pub(crate) fn apply(
        &self,
        connection: &mut Connection,
        path: &Path,
    ) -> Result<(), SqliteError> {
        let fail = |error| SqliteError::new(path, error);
        // Who finds everything up to date takes no lock.
        if self.current_version(connection, path)? == self.migrations.len() {
            return Ok(());
        }
        connection.pragma_update(None, "foreign_keys", false).map_err(fail)?;
        while self.step(connection, path)? {}
        connection.pragma_update(None, "foreign_keys", true).map_err(fail)
    }

    /// Makes one version of the one before it. Returns whether there was anything to do.
    fn step(&self, connection: &mut Connection, path: &Path) -> Result<bool, SqliteError> {
        let fail = |error| SqliteError::new(path, error);
        let is_empty = self.current_version(connection, path)? == 0;
        let behavior = match is_empty {
            true => TransactionBehavior::Deferred,
            false => TransactionBehavior::Immediate,
        };
        let transaction = connection.transaction_with_behavior(behavior).map_err(fail)?;
        if is_empty {
            // Pages can be given back later. It begins to write, and has to come before anything else
            // does; it is in the transaction so that no file is ever without its application's id.
            transaction.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(fail)?;
        }
        // Again, now that nobody else can change it.
        let stored = self.stored_version(&transaction, path)?;
        let Some(migration) = self.migrations.get(stored) else {
            return Ok(false);
        };
        transaction.execute_batch(migration).map_err(fail)?;
        transaction.pragma_update(None, "user_version", stored as i64 + 1).map_err(fail)?;
        transaction.pragma_update(None, "application_id", self.application_id).map_err(fail)?;
        let is_broken =
            transaction.prepare("PRAGMA foreign_key_check").and_then(|mut rows| rows.exists([]));
        if is_broken.map_err(fail)? {
            let reason =
                format!("its rows do not fit together after the step to version {}", stored + 1);
            return Err(SqliteError::Corrupt { path: path.into(), reason, source: None });
        }
        transaction.commit().map_err(fail)?;
        Ok(true)
    }

    /// Returns the version of an open database of ours at this moment, 0 for an empty one.
    fn current_version(
        &self,
        connection: &mut Connection,
        path: &Path,
    ) -> Result<usize, SqliteError> {
        // In a transaction, so that what is read is of one moment.
        let transaction =
            connection.transaction().map_err(|error| SqliteError::new(path, error))?;
        self.stored_version(&transaction, path)
    }

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

    /// Checks the application and the version of a database that is not empty, and returns the version.
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
        match usize::try_from(version) {
            Ok(version @ 1..) if version <= self.migrations.len() => Ok(version),
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
