//! Control over a live run from outside.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use neuron_types::{ApprovalDecisions, ApprovalError, Message, PendingApproval};
use tokio_util::sync::CancellationToken;

use crate::Conversation;
use crate::lock::lock;

/// A handle that controls a live run from outside. It can send messages, cancel the run, decide on pending calls, and
/// take the conversation of an owned run. Clones control the same run.
///
/// # Example
///
/// ```
/// # use neuron_loop::{Agent, Conversation};
/// # use neuron_testing::ScriptedProvider;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::builder(ScriptedProvider::new(["Hello.", "Bonjour."])).build();
/// let mut run = agent.run_owned(Conversation::new(), "Hi");
/// let handle = run.handle();
/// handle.steer("Speak French.")?;
/// let (conversation, result) = run.await;
/// assert_eq!(conversation.messages().len(), 3);
/// assert_eq!(result?.response, "Hello.");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct RunHandle(Arc<Mutex<Control>>);

/// The state that a run and its handles share.
#[derive(Default)]
struct Control {
    /// Messages that the run has not added yet.
    sent: Vec<Message>,
    /// Set once the run takes no more messages.
    is_over: bool,
    is_cancelled: bool,
    /// The cancellation token of the run. Set while the run is driven.
    token: Option<CancellationToken>,
    /// The pending calls without a decision. Set while the run waits for decisions.
    pending: Option<PendingApproval>,
    /// Decisions that the run has not received yet, by each caller of [`RunHandle::decide`].
    decisions: Vec<ApprovalDecisions>,
    /// Wakes the run that waits for decisions.
    waiting: Option<Waker>,
    /// The conversation of an owned run. Set after the run ended or was dropped.
    conversation: Option<Conversation>,
}

/// A run has ended and did not take a message, which the error contains. Start another run with the message.
#[derive(Debug, Clone, PartialEq)]
pub struct SteerError(pub Message);

impl fmt::Display for SteerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the run has ended and did not take the message: start another run with it")
    }
}

impl std::error::Error for SteerError {}

/// The handle that a run has of itself. After a drop the run takes no more messages.
#[derive(Default)]
pub(crate) struct Steered(pub(crate) RunHandle);

impl Drop for Steered {
    fn drop(&mut self) {
        // FAULT a run that was dropped takes messages: without the line
        //     (ends::message_is_taken_or_comes_back_however_the_run_ends)
        self.0.set_over(true);
    }
}

impl RunHandle {
    /// Sends a message to the run. It is added to the conversation before the next model call. If it arrives after the
    /// last model call, the run continues for one more turn.
    ///
    /// If the run fails, is cancelled or dropped, or reaches a limit, before it adds the message, the message comes back
    /// from [`take_unsent`](Self::take_unsent).
    ///
    /// # Errors
    ///
    /// [`SteerError`] with the message if the run has ended. A run has ended once its last response is final, so before
    /// its last store and its last hooks.
    pub fn steer(&self, message: impl Into<Message>) -> Result<(), SteerError> {
        let mut control = lock(&self.0);
        // FAULT a run that has ended takes messages: `control.is_over` -> `false`
        //     (ends::message_is_taken_or_comes_back_however_the_run_ends)
        if control.is_over {
            return Err(SteerError(message.into()));
        }
        control.sent.push(message.into());
        Ok(())
    }

    /// Takes the messages that were sent to the run and that it has not added to the conversation. After the run these
    /// are the messages that it will not add.
    #[must_use]
    pub fn take_unsent(&self) -> Vec<Message> {
        std::mem::take(&mut lock(&self.0).sent)
    }

    /// Cancels the run. Has the same effect as cancelling
    /// [`ToolContext::cancellation_token`](neuron_types::ToolContext::cancellation_token).
    pub fn cancel(&self) {
        let mut control = lock(&self.0);
        control.is_cancelled = true;
        if let Some(token) = &control.token {
            token.cancel();
        }
    }

    /// Returns the pending calls without a decision of a run that
    /// [waits for an approval](crate::Run::wait_for_approval). Returns `None` if there are none, or while the run does
    /// not wait.
    #[must_use]
    pub fn pending(&self) -> Option<PendingApproval> {
        lock(&self.0).pending.clone()
    }

    /// Decides on the pending calls of a run that [waits for an approval](crate::Run::wait_for_approval). The run takes
    /// the decisions when it is polled next, together with those of earlier calls.
    ///
    /// The run also checks edited arguments and signatures. If it does not accept them, it logs the reason, carries out
    /// the decisions of other callers, and waits again.
    ///
    /// # Errors
    ///
    /// The [`ApprovalError`] of the first decision that does not fit. Nothing is decided then.
    ///
    /// - [`ApprovalError::NothingPending`] if the run does not wait, or all its pending calls are decided. While the run
    ///   works, its other calls cannot be decided. Try again when [`pending`](Self::pending) shows them.
    /// - [`ApprovalError::NotPending`] if a decision came too late or a second time, or is on another call.
    /// - Others as in [`PendingApproval::check`].
    pub fn decide(&self, decisions: ApprovalDecisions) -> Result<(), ApprovalError> {
        let mut control = lock(&self.0);
        let pending = control.pending.as_mut().ok_or(ApprovalError::NothingPending)?;
        // FAULT a handle accepts any decision: without the line
        //     (agent::handle_refuses_decisions_that_fit_no_pending_call)
        pending.check(&decisions)?;
        // FAULT a handle accepts a second decision on a call: without the line
        //     (agent::handle_refuses_decisions_that_fit_no_pending_call)
        pending.remove_decided(&decisions);
        if pending.calls.is_empty() {
            control.pending = None;
        }
        control.decisions.push(decisions);
        // FAULT a decision does not wake the run: without the statement
        //     (agent::decision_and_cancellation_wake_a_run_that_waits_for_approval)
        if let Some(waiting) = control.waiting.take() {
            waiting.wake();
        }
        Ok(())
    }

    /// Takes the conversation of an owned run. Returns `None` if the run has not ended, or if the conversation was
    /// already taken.
    #[must_use]
    pub fn take_conversation(&self) -> Option<Conversation> {
        lock(&self.0).conversation.take()
    }

    /// Returns a token for the run, which is cancelled by `outer` or by the handle.
    pub(crate) fn attach(&self, outer: &CancellationToken) -> CancellationToken {
        let (mut control, token) = (lock(&self.0), outer.child_token());
        // FAULT a run that was cancelled before it began runs: `control.is_cancelled` -> `false`
        //     (agent::handle_and_context_both_cancel_the_run_and_its_tools)
        if control.is_cancelled {
            token.cancel();
        }
        // FAULT a handle cannot cancel a run: without the line
        //     (agent::handle_and_context_both_cancel_the_run_and_its_tools)
        control.token = Some(token.clone());
        token
    }

    /// Takes the messages that were sent. If there are none and the run `ends`, it takes no more.
    pub(crate) fn take_or_close(&self, ends: bool) -> Vec<Message> {
        let mut control = lock(&self.0);
        // One step, so that no message is accepted in between.
        // FAULT a run takes messages only before its first turn: without `ends &&`
        control.is_over |= ends && control.sent.is_empty();
        std::mem::take(&mut control.sent)
    }

    /// Puts messages back that were taken and not added, before those that were sent since.
    pub(crate) fn put_back(&self, messages: Vec<Message>) {
        lock(&self.0).sent.splice(..0, messages);
    }

    /// Makes the run take no more messages, or take them again.
    pub(crate) fn set_over(&self, is_over: bool) {
        lock(&self.0).is_over = is_over;
    }

    /// Waits for decisions on the pending calls.
    pub(crate) async fn decided(&self, pending: &PendingApproval) -> Vec<ApprovalDecisions> {
        lock(&self.0).pending = Some(pending.clone());
        // Cleared on drop too, because a dropped wait can no longer receive decisions.
        // FAULT a run names its waiting calls for a moment: `let _over` -> `let _`
        //     (agent::waiting_run_continues_with_decisions_from_its_handle)
        let _over = scopeguard::guard((), |()| {
            let control = &mut *lock(&self.0);
            // A decision that the run has not received is on a wait that is over.
            (control.pending, control.decisions) = (None, Vec::new());
        });
        poll_fn(|cx| {
            let mut control = lock(&self.0);
            if control.decisions.is_empty() {
                control.waiting = Some(cx.waker().clone());
                return Poll::Pending;
            }
            // In one step, so that no decision arrives in between and is lost.
            control.pending = None;
            Poll::Ready(std::mem::take(&mut control.decisions))
        })
        .await
    }

    /// Stores the conversation for [`take_conversation`](Self::take_conversation).
    pub(crate) fn give_back(&self, conversation: Conversation) {
        lock(&self.0).conversation = Some(conversation);
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("sent", &lock(&self.0).sent.len()).finish_non_exhaustive()
    }
}
