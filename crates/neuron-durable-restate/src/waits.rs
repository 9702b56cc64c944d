//! The waits of a run. A wait is stored in the register until it ends. The register is the Restate object that lists
//! the runs.

use std::time::Duration;

use neuron_types::{DurableError, PendingApproval, Provider};
use serde_json::Value;

use crate::RestateDurableContext;
use crate::register::Waiting;

impl<P: Provider> RestateDurableContext<'_, '_, P> {
    /// Waits for a signal, and stores the wait in the register of runs meanwhile. Returns `None` if no signal arrived
    /// before the timeout. `pending` contains the tool calls that need a decision, or is `None` for any other signal.
    pub(crate) async fn receive(
        &self,
        signal: &str,
        timeout: Duration,
        pending: Option<&PendingApproval>,
    ) -> Result<Option<Value>, DurableError> {
        self.journal.check()?;
        self.check_may_wait()?;
        let waiting = match pending {
            Some(pending) => Some(Waiting::approval(signal, pending)),
            None if self.inbox.has(signal) => None,
            None => Some(Waiting::signal(signal)),
        };
        let shown = match waiting {
            Some(waiting) => self.show(waiting, timeout).await?,
            None => false,
        };
        let received = self.inbox.receive(&self.journal, signal, timeout).await;
        self.hide(shown);
        received
    }

    /// Stores a wait in the register, the Restate object that lists the runs. Returns `true` if the wait was stored.
    ///
    /// Returns `false` in the invocation of a tool, which has no entry in the register.
    async fn show(&self, mut waiting: Waiting, timeout: Duration) -> Result<bool, DurableError> {
        let journal = &self.journal;
        let Some(register) = journal.register() else { return Ok(false) };
        // Restate counts the wait from now, but the journal's clock has the time of the last step. So the clock is set
        // first.
        journal.stamp().await?;
        if let Some(pending) = &mut waiting.pending {
            // The state of a revived run has the id of the old run. Decisions must be sent to the new run.
            pending.run_id.clone_from(&self.run_id);
        }
        (waiting.since, waiting.deadline) = (Some(journal.now()), journal.deadline(timeout));
        register.show(journal.context(), waiting);
        Ok(true)
    }

    /// Removes the wait from the register of runs. Does nothing if `shown` is `false`, because the wait was not stored.
    fn hide(&self, shown: bool) {
        // If the run differs from the journal, no command is sent. Restate would otherwise report the command instead
        // of the recorded reason.
        if let (true, Some(register)) = (shown, self.journal.register())
            && self.journal.fate().check().is_ok()
        {
            register.hide(self.journal.context());
            self.journal.count(2);
        }
    }

    /// Waits for a time, and stores the wait in the register meanwhile.
    pub(crate) async fn registered_sleep(&self, duration: Duration) -> Result<(), DurableError> {
        self.journal.check()?;
        let shown = self.show(Waiting::time(), duration).await?;
        let slept = self.journal.sleep(duration).await;
        self.hide(shown);
        slept
    }

    /// Returns an error if this context belongs to an agent inside a tool call. Such an agent cannot wait for a signal,
    /// because signals are sent to the parent run.
    fn check_may_wait(&self) -> Result<(), DurableError> {
        match self.is_nested {
            true => {
                let text = "an agent inside a tool call cannot wait for a signal";
                Err(DurableError::Other(text.into()))
            }
            false => Ok(()),
        }
    }
}
