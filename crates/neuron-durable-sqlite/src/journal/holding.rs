//! Checks that a context still holds its run, and polls futures only while the context holds the run.
//!
//! A context holds a run from the opening until the run is taken over by another context, cancelled or deleted.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use neuron_durable::RunStatus;
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{OptionalExtension as _, Transaction};
use neuron_types::{DurableError, clock};

use super::Journal;
use crate::JournalError;
use crate::lock::Renewal;
use crate::run_row::status_name;

/// Maximum time for which a cancelled run may continue before it is dropped.
const GRACE: Duration = Duration::from_secs(1);

/// The run of a journal, with the number that proves that this context still holds the run (see [`Opened`]).
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Key of the run's row. In a nested journal, the key of the nested run.
    pub(crate) run: i64,
    /// Id of the run. In a nested journal, the id of the nested run.
    pub(crate) id: Arc<str>,
    pub(super) opened: Opened,
}

/// The opened run, and its epoch when this context opened it. A nested journal has the value of the outermost run.
///
/// The epoch is a number that is incremented when the run is opened, [retried](crate::SqliteRuns::retry) or
/// [revived](crate::SqliteRuns::revive). Only the context with the latest epoch may write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    pub(super) run: i64,
    pub(super) epoch: i64,
}

impl Place {
    /// Returns the key of the outermost run.
    pub(crate) fn outermost(&self) -> i64 {
        self.opened.run
    }

    /// Checks that the run was not opened by another context, cancelled or deleted since this context opened it.
    pub(crate) fn check(&self, transaction: &Transaction<'_>) -> Result<(), Abort<JournalError>> {
        let mut select =
            transaction.prepare_cached("SELECT epoch, status FROM runs WHERE key = ?1")?;
        let opened = self.opened;
        let found = select
            .query_row([opened.run], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))
            .optional()?;
        let id = || self.id.to_string();
        match found {
            None => Err(JournalError::Deleted { id: id() }.into()),
            Some((_, status)) if status == status_name(RunStatus::Cancelled) => {
                Err(JournalError::Cancelled { id: id() }.into())
            }
            Some((epoch, _)) if epoch == opened.epoch => Ok(()),
            Some(_) => Err(JournalError::Superseded { id: id() }.into()),
        }
    }
}

impl Journal {
    /// Polls `work` only while this context holds the run. If the run is cancelled, drops `work` and returns an error.
    /// Does the same at the next poll after another context has taken the run over.
    pub(crate) async fn while_held<T: Send>(
        &self,
        work: impl Future<Output = Result<T, DurableError>> + Send,
    ) -> Result<T, DurableError> {
        let cancelled = self.cancelled();
        let work = async {
            match select(pin!(work), pin!(cancelled)).await {
                Either::Left((done, _)) => done,
                Either::Right((error, _)) => Err(error),
            }
        };
        neuron_durable::while_held(self.lock.lease(), || self.prove(), work).await?
    }

    /// Polls the future of a whole run while this context holds the run. The lease is also renewed between the steps.
    /// If the run is cancelled, the future may continue for one second before it is dropped.
    pub(crate) async fn drive_while_held<T: Send>(
        &self,
        run: impl Future<Output = T> + Send,
    ) -> Result<T, DurableError> {
        let cancelled = self.cancelled();
        let run = async {
            match select(pin!(run), pin!(cancelled)).await {
                Either::Left((done, _)) => Ok(done),
                Either::Right((error, run)) => clock::within(GRACE, run).await.ok_or(error),
            }
        };
        neuron_durable::while_held(self.lock.lease(), || self.prove(), run).await?
    }

    /// Returns a future that waits until this run is cancelled in this process, and then returns the error.
    ///
    /// The future checks this run each time the process cancels any run. It also ends if this run was taken over or
    /// deleted. A cancellation between this call and the first poll is noticed too.
    fn cancelled(&self) -> impl Future<Output = DurableError> + Send {
        let mut cancelled = self.notices.cancelled.notified();
        async move {
            loop {
                cancelled.await;
                cancelled = self.notices.cancelled.notified();
                if let Err(error) = self.check_held().await {
                    return error;
                }
            }
        }
    }

    /// Renews the lease, and checks in the database that this context still holds the run.
    ///
    /// The check uses a separate connection to the database. The guarded work may use the other connections and is not
    /// polled during the check, so waiting for such a connection would be a deadlock.
    async fn prove(&self) -> Result<(), DurableError> {
        let place = self.place.clone();
        let check = move |transaction: &Transaction<'_>| place.check(transaction);
        let renewal = self.lock.renew();
        // A database in memory has no other process, so a busy connection (`None`) counts as proof.
        let proven: Result<Option<()>, JournalError> = match renewal {
            Renewal::InTime => self.database.read_apart(check).await,
            // Another context may be taking the run over in a write transaction. This read waits until that transaction
            // has ended.
            Renewal::Late | Renewal::Lost => self.database.read_apart_from_writers(check).await,
        };
        match proven {
            Ok(_) if renewal == Renewal::Lost => {
                Err(JournalError::Superseded { id: self.place.id.to_string() }.into())
            }
            proven => Ok(proven.map(|_| ())?),
        }
    }

    /// Checks that this context still holds the run, without renewing the lease.
    pub(crate) async fn check_held(&self) -> Result<(), DurableError> {
        let place = self.place.clone();
        let checked = self.database.read(move |transaction| place.check(transaction));
        checked.await.map_err(|error: JournalError| error.into())
    }
}

#[cfg(test)]
mod tests;
