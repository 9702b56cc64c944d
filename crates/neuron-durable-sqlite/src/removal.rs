//! Removing runs, and giving their space back.

use std::time::Duration;

use chrono::Utc;
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{Connection, Transaction};

use crate::error::check_run_id;
use crate::run_row::RunRow;
use crate::step_row::millis;
use crate::{JournalError, SqliteRuns};

/// Minimum number of free pages (1 MiB) that a deletion returns to the file system. Fewer pages are kept for the
/// next steps.
const MANY_PAGES: i64 = 256;

impl SqliteRuns {
    /// Deletes a run with its steps and signals, even if it is damaged.
    ///
    /// # Errors
    ///
    /// [`JournalError::NotFound`]; [`JournalError::Held`] if somebody drives it;
    /// [`JournalError::Lock`] or [`JournalError::Database`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it deletes the run or does not.
    pub async fn delete(&self, id: &str) -> Result<(), JournalError> {
        check_run_id(id)?;
        let (id, locks) = (id.to_owned(), self.locks().clone());
        let deleted = self.database().write(move |transaction| {
            // Also one that cannot be read any more.
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

    /// Deletes the runs that have ended, longer ago than this, and that nobody holds. Returns how many.
    ///
    /// # Errors
    ///
    /// [`JournalError::Lock`] or [`JournalError::Database`]: then none is deleted.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it deletes all of them or none.
    pub async fn prune(&self, older_than: Duration) -> Result<usize, JournalError> {
        let locks = self.locks().clone();
        let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
        let latest = millis(Utc::now()).saturating_sub(age);
        let pruned = self.database().write(move |transaction| {
            let mut keys: Vec<i64> = Vec::new();
            // A damaged run stays.
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

    /// Gives space back. What fails here is space that the next deletion gives back.
    async fn reclaim(&self, free: i64) {
        if free >= MANY_PAGES {
            let _ = self.database().reclaim().await;
        }
    }
}

fn delete(transaction: &Transaction<'_>, run: i64) -> Result<(), Abort<JournalError>> {
    // Its steps and signals go with it.
    RunRow::delete_nested(transaction, run)?;
    transaction.execute("DELETE FROM runs WHERE key = ?1", [run])?;
    Ok(())
}

fn free_pages(connection: &Connection) -> Result<i64, Abort<JournalError>> {
    Ok(connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?)
}
