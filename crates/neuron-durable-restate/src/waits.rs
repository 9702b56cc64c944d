//! The waits of a run, which are in the register while they last.

use std::time::Duration;

use neuron_types::{DurableError, PendingApproval, Provider};
use serde_json::Value;

use crate::RestateDurableContext;
use crate::register::{Register, Waiting};

impl<P: Provider> RestateDurableContext<'_, '_, P> {
    /// Waits for a signal, and registers the wait.
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

    /// Registers a wait. Returns `false` if the journal must not have such an entry.
    async fn show(&self, mut waiting: Waiting, timeout: Duration) -> Result<bool, DurableError> {
        let journal = &self.journal;
        match (journal.register(), &mut waiting.pending) {
            (Some(register), pending) => {
                // Restate counts from now, and the step before may have ended long ago.
                journal.stamp().await?;
                if let Some(pending) = pending {
                    // A run that was revived has the id of the run before in its state. Decisions go to this one.
                    pending.run_id.clone_from(&self.run_id);
                }
                (waiting.since, waiting.deadline) =
                    (Some(journal.now()), journal.deadline(timeout));
                register.show(journal.context(), waiting);
            }
            // Older releases registered approvals alone, without times and counts.
            (None, Some(pending)) => {
                (pending.requests, pending.tool_calls) = (0, 0);
                (pending.usage, pending.tool_usage) = Default::default();
                Register::new(&self.service, &self.run_id).show(journal.context(), waiting);
            }
            (None, None) => return Ok(false),
        }
        Ok(true)
    }

    fn hide(&self, shown: bool) {
        // Code that the journal does not fit fails with the reason, and not with a command that differs.
        if shown && self.journal.fate().check().is_ok() {
            Register::new(&self.service, &self.run_id).hide(self.journal.context());
            self.journal.count(2);
        }
    }

    /// Sleeps, and registers the wait.
    pub(crate) async fn registered_sleep(&self, duration: Duration) -> Result<(), DurableError> {
        self.journal.check()?;
        let shown = self.show(Waiting::time(), duration).await?;
        let slept = self.journal.sleep(duration).await;
        self.hide(shown);
        slept
    }

    /// Returns an error in the run of an agent inside a tool call, because the run around it waits.
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
