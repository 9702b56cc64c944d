//! Signals, with a limit on the wait.

use std::pin::pin;
use std::time::Duration;

use neuron_types::{DurableError, PendingApproval};
use send_wrapper::SendWrapper;
use serde_json::Value;
use temporalio_sdk::{CancellableFuture, TimerResult, workflows};

use super::TemporalDurableContext;
use crate::HasMailbox;

impl<W: HasMailbox> TemporalDurableContext<W> {
    pub(super) async fn receive(
        &self,
        name: &str,
        timeout: Duration,
    ) -> Result<Option<Value>, DurableError> {
        self.begin_step()?;
        let take = || self.ctx.state_mut(|state| state.mailbox_mut().take_signal(name));
        if let Some(value) = take() {
            return Ok(Some(value));
        }
        let wait = SendWrapper::new(async {
            let mut timer = pin!(self.ctx.timer(timeout));
            let mut came =
                pin!(self.ctx.wait_condition(|state: &W| state.mailbox().has_signal(name)));
            // The signal first: one that comes with the last moment is in time.
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
        wait.await?;
        self.answers_are_kept();
        Ok(take())
    }
}

/// Leaves out the conversations: what is decided on are the calls, and a query must stay small.
pub(super) fn leave_out_messages(pending: &mut PendingApproval) {
    pending.messages = Vec::new();
    for call in &mut pending.calls {
        if let Some(nested) = &mut call.nested {
            leave_out_messages(nested);
        }
    }
}
