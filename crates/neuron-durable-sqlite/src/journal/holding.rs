//! The proof that no other context has opened a run since, and work that is polled only with that proof.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{OptionalExtension as _, Transaction};
use neuron_types::{DurableError, clock};

use super::Journal;
use crate::JournalError;
use crate::lock::Renewal;
use crate::run_info::RunStatus;
use crate::run_row::status_name;

/// Time in which a cancelled run ends itself.
const GRACE: Duration = Duration::from_secs(1);

/// The run of a journal, and the opening by which this context holds it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) run: i64,
    pub(crate) id: Arc<str>,
    pub(super) opened: Opened,
}

/// The opened run with its number of openings. Only the context that opened it last may write. Nested journals
/// share it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    pub(super) run: i64,
    pub(super) epoch: i64,
}

impl Place {
    /// Checks that nobody has opened, cancelled or deleted the run since.
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
    /// Does work while this context holds the run. The work is dropped at its next poll after another context has taken
    /// the run over, and when the run is cancelled.
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
        neuron_runtime::while_held(self.lock.lease(), || self.prove(), work).await?
    }

    /// Drives a whole run while this context holds it, also between its steps. A run that is cancelled in a step ends
    /// itself. Otherwise it is dropped.
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
        neuron_runtime::while_held(self.lock.lease(), || self.prove(), run).await?
    }

    /// Waits until the run is cancelled in this process. A cancellation counts from the call on.
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

    /// Renews the lease, and proves that the run is still held.
    ///
    /// It does not queue behind other callers of the database: the work may be one of them, and is not polled meanwhile.
    async fn prove(&self) -> Result<(), DurableError> {
        let place = self.place.clone();
        let check = move |transaction: &Transaction<'_>| place.check(transaction);
        let renewal = self.lock.renew();
        // In memory there is no other process, and nothing is read.
        let proven: Result<Option<()>, JournalError> = match renewal {
            Renewal::InTime => self.database.read_apart(check).await,
            // Another context may be taking the run over. It does so in a transaction that writes, and this one waits
            // until that transaction has ended.
            Renewal::Late | Renewal::Lost => self.database.read_apart_from_writers(check).await,
        };
        match proven {
            Ok(_) if renewal == Renewal::Lost => {
                Err(JournalError::Superseded { id: self.place.id.to_string() }.into())
            }
            proven => Ok(proven.map(|_| ())?),
        }
    }

    /// Checks that the run is still held, without a renewal.
    pub(crate) async fn check_held(&self) -> Result<(), DurableError> {
        let place = self.place.clone();
        let checked = self.database.read(move |transaction| place.check(transaction));
        checked.await.map_err(|error: JournalError| error.into())
    }
}

#[cfg(test)]
mod tests;
