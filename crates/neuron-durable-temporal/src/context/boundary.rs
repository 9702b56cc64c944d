//! The end of the workflow's task, at which the server receives the results of local calls.

use std::time::Duration;

use neuron_types::DurableError;
use send_wrapper::SendWrapper;
use temporalio_sdk::{TimerResult, WorkflowContext};

use super::TemporalDurableContext;
use crate::HasMailbox;

/// The shortest timer that the server knows. It may fire only with its clock's next second.
const SHORTEST: Duration = Duration::from_millis(1);

/// Ends the workflow's task if it has an answer of a local call that the server does not know.
///
/// What a local activity gave goes to the server with the task's end alone. A task that ends for an
/// activity or a timer takes it along; one that goes on to another local call, or to the run's end, would
/// lose it when the worker dies meanwhile, when a signal comes at the end, or when all of it together is
/// too long for a message. The answer would be paid again, each time.
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
    /// As [`keep_answers`].
    pub(super) async fn keep_answers(&self) -> Result<(), DurableError> {
        SendWrapper::new(keep_answers(&self.ctx)).await
    }

    /// After an answer of a local call.
    pub(super) fn answer_came(&self) {
        self.ctx.state_mut(|state| state.mailbox_mut().set_unkept_answer(true));
    }

    /// After a timer or an activity, for which the task ended.
    pub(super) fn answers_are_kept(&self) {
        self.ctx.state_mut(|state| state.mailbox_mut().set_unkept_answer(false));
    }
}
