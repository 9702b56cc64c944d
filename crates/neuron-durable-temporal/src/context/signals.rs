//! Waits for signals with a timeout.

use std::pin::pin;
use std::time::Duration;

use chrono::TimeDelta;
use neuron_types::{DurableContext, DurableError, PendingApproval};
use send_wrapper::SendWrapper;
use serde_json::Value;
use temporalio_sdk::{CancellableFuture, TimerOptions, TimerResult, workflows};

use super::{LONGEST, TemporalDurableContext};
use crate::HasMailbox;
use crate::wait::{Wait, summary};

impl<W: HasMailbox> TemporalDurableContext<W> {
    /// Waits for the oldest signal with this name. Returns `None` if no signal arrives before the timeout.
    ///
    /// Pass the calls that need a decision as `pending` if the signal brings decisions.
    pub(super) async fn receive(
        &self,
        name: &str,
        timeout: Duration,
        pending: Option<PendingApproval>,
    ) -> Result<Option<Value>, DurableError> {
        self.begin_step()?;
        let take = || self.ctx.state_mut(|state| state.mailbox_mut().take_signal(name));
        if let Some(value) = take() {
            return Ok(Some(value));
        }
        let summary = pending.as_ref().and_then(|_| summary(name));
        let limit = TimerOptions::builder(timeout).maybe_summary(summary).build();
        let wait = SendWrapper::new(async {
            let mut timer = pin!(self.ctx.timer(limit));
            let mut came =
                pin!(self.ctx.wait_condition(|state: &W| state.mailbox().has_signal(name)));
            // The signal is checked first, so a signal that arrives together with the timer is in time.
            let outcome = workflows::select! {
                came = came => came.map_err(|_| DurableError::Cancelled),
                fired = timer => match fired {
                    TimerResult::Cancelled => Err(DurableError::Cancelled),
                    _ => Ok(()),
                },
            };
            timer.cancel();
            outcome
        });
        self.begin_wait(Some(name), timeout, pending);
        let waited = wait.await;
        let signal = waited.as_ref().ok().and_then(|()| take());
        let is_missed = waited.is_ok() && signal.is_none();
        let missed_at = is_missed.then(|| self.now());
        self.ctx.state_mut(|state| state.mailbox_mut().end_wait(missed_at));
        waited?;
        self.answers_are_kept();
        Ok(signal)
    }

    /// Stores the current wait in the mailbox, for the query `neuron_waits_for`.
    pub(super) fn begin_wait(
        &self,
        signal: Option<&str>,
        timeout: Duration,
        pending: Option<PendingApproval>,
    ) {
        let since = self.now();
        let timeout = Some(timeout).filter(|timeout| *timeout < LONGEST);
        let timeout = timeout.and_then(|timeout| TimeDelta::from_std(timeout).ok());
        let deadline = timeout.and_then(|timeout| since.checked_add_signed(timeout));
        let wait = Wait { since, deadline, signal: signal.map(str::to_owned), pending };
        self.ctx.state_mut(|state| state.mailbox_mut().begin_wait(wait));
    }
}
