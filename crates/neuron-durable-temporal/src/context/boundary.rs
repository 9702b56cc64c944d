//! The end of a workflow task, which sends the results of local activities to the server.

use std::time::Duration;

use neuron_types::DurableError;
use send_wrapper::SendWrapper;
use temporalio_sdk::{TimerResult, WorkflowContext};

use super::TemporalDurableContext;
use crate::HasMailbox;

/// The shortest timer that the server accepts. It may take until the next second of the server's clock to fire.
const SHORTEST: Duration = Duration::from_millis(1);

/// Makes the worker send the results of local activities to the server, by waiting for a timer. Does nothing if the
/// server has all results.
///
/// The worker sends these results only at the end of a workflow task, and the timer ends the task. A result that was
/// not sent is lost in these cases, and the model call is then made and paid again:
///
/// - The worker dies during the next local call.
/// - A signal arrives at the end of the run.
/// - All results of the task together exceed the maximum length of a message.
pub(crate) async fn keep_answers<W: HasMailbox>(
    ctx: &WorkflowContext<W>,
) -> Result<(), DurableError> {
    if !ctx.state(|state| state.mailbox().has_unkept_answer()) {
        return Ok(());
    }
    let fired = ctx.timer(SHORTEST).await;
    ctx.state_mut(|state| state.mailbox_mut().set_unkept_answer(false));
    match fired {
        TimerResult::Cancelled => Err(DurableError::Cancelled),
        _ => Ok(()),
    }
}

impl<W: HasMailbox> TemporalDurableContext<W> {
    /// Sends results of local activities to the server, as the function [`keep_answers`] does.
    pub(super) async fn keep_answers(&self) -> Result<(), DurableError> {
        SendWrapper::new(keep_answers(&self.ctx)).await
    }

    /// Records that a local activity returned a result, which the server has not received yet.
    pub(super) fn answer_came(&self) {
        self.ctx.state_mut(|state| state.mailbox_mut().set_unkept_answer(true));
    }

    /// Records that the server has received all results of local activities. Call this after a wait for a timer or an
    /// activity, because such a wait ends the workflow task.
    pub(super) fn answers_are_kept(&self) {
        self.ctx.state_mut(|state| state.mailbox_mut().set_unkept_answer(false));
    }
}
