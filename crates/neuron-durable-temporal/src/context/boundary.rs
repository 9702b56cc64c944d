//! The end of a workflow task, which sends the results of local activities to the server.

use std::time::Duration;

use neuron_types::DurableError;
use send_wrapper::SendWrapper;
use temporalio_sdk::{TimerResult, WorkflowContext};

use super::TemporalDurableContext;
use crate::HasMailbox;

/// The shortest timer that the server accepts. It may take until the next second of the server's clock to fire.
const SHORTEST: Duration = Duration::from_millis(1);

/// Ends the workflow task if it has the result of a local activity that the server has not received.
///
/// The worker sends the result of a local activity only at the end of the workflow task. A task also ends when the run
/// waits for an activity or a timer. Without such a wait, the result would be lost in three cases: the worker dies
/// during the next local call, a signal arrives at the end of the run, or all results together exceed the maximum
/// length of a message. The model call would then be made and paid again.
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

    /// Records that the server has all results of local activities. A wait for a timer or an activity ended the
    /// workflow task, and the worker sent the results.
    pub(super) fn answers_are_kept(&self) {
        self.ctx.state_mut(|state| state.mailbox_mut().set_unkept_answer(false));
    }
}
