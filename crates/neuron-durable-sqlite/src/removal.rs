//! Deleting runs, and returning their space to the file system.

use std::time::Duration;

use chrono::Utc;
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{Connection, Transaction};

use crate::error::check_run_id;
use crate::run_row::RunRow;
use crate::step_row::millis;
use crate::{JournalError, SqliteRuns};

/// Minimum number of free database pages (1 MiB) that are returned to the file system. If fewer pages are free, the
/// database keeps them for new steps.
const MANY_PAGES: i64 = 256;

impl SqliteRuns {
    /// Deletes a run with its steps and signals, even if the run is damaged.
    ///
    /// # Errors
    ///
    /// - [`JournalError::InvalidId`] or [`JournalError::NotFound`].
    /// - [`JournalError::Held`] if a context holds the run.
    /// - [`JournalError::Lock`] or [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the run is either deleted or unchanged.
    pub async fn delete(&self, id: &str) -> Result<(), JournalError> {
        check_run_id(id)?;
        let (id, locks) = (id.to_owned(), self.locks().clone());
        let deleted = self.database().write(move |transaction| {
            // Only the key is read, so a damaged run can be deleted too.
            let mut select = transaction.prepare("SELECT key FROM runs WHERE id = ?1")?;
            let keys = select.query_map([&id], |row| row.get::<_, i64>(0))?;
            let keys: Vec<i64> = keys.collect::<Result<_, _>>()?;
            let Some(&key) = keys.first() else {
                return Err(JournalError::NotFound { id }.into());
            };
            if locks.is_held(key)? {
                return Err(JournalError::Held { id }.into());
            }
            delete(transaction, key)?;
            Ok((key, free_pages(transaction)?))
        });
        let (key, free) = deleted.await.map_err(|error: JournalError| error)?;
        self.locks().remove(key);
        self.reclaim(free).await;
        Ok(())
    }

    /// Deletes the runs that ended at least `older_than` ago. Damaged runs, and runs that a context holds, are kept.
    /// Returns the number of deleted runs.
    ///
    /// # Errors
    ///
    /// [`JournalError::Lock`] or [`JournalError::Database`]. No run is deleted then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, either all of these runs are deleted or none.
    pub async fn prune(&self, older_than: Duration) -> Result<usize, JournalError> {
        let locks = self.locks().clone();
        let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let latest = millis(Utc::now()).saturating_sub(age);
        let pruned = self.database().write(move |transaction| {
            let mut keys: Vec<i64> = Vec::new();
            // A damaged run stays: its status and age are not known for certain.
            for run in RunRow::all(transaction)?.into_iter().flatten() {
                let is_old = run.status.is_end() && run.changed_at <= latest;
                if is_old && !locks.is_held(run.key)? {
                    delete(transaction, run.key)?;
                    keys.push(run.key);
                }
            }
            Ok((keys, free_pages(transaction)?))
        });
        let (keys, free) = pruned.await.map_err(|error: JournalError| error)?;
        keys.iter().for_each(|key| self.locks().remove(*key));
        self.reclaim(free).await;
        Ok(keys.len())
    }

    /// Returns the free space to the file system if `free`, the number of free pages, is at least [`MANY_PAGES`].
    /// Errors are ignored, because the next deletion tries again.
    async fn reclaim(&self, free: i64) {
        if free >= MANY_PAGES {
            let _ = self.database().reclaim().await;
        }
    }
}

/// Deletes the row of a run and its nested journals.
fn delete(transaction: &Transaction<'_>, run: i64) -> Result<(), Abort<JournalError>> {
    // The tables delete the steps and signals of a run with its row (`ON DELETE CASCADE`).
    RunRow::delete_nested(transaction, run)?;
    transaction.execute("DELETE FROM runs WHERE key = ?1", [run])?;
    Ok(())
}

/// Returns the number of free pages in the database file.
fn free_pages(connection: &Connection) -> Result<i64, Abort<JournalError>> {
    Ok(connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?)
}
