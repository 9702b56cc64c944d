//! Control over a live run from outside.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use neuron_types::{ApprovalDecisions, Message, PendingApproval};
use tokio_util::sync::CancellationToken;

use crate::Conversation;
use crate::lock::lock;

/// A handle that controls a live run from outside. It can send messages, cancel the run, decide on pending calls, and
/// take the conversation of an owned run. Clones control the same run.
///
/// # Example
///
/// ```
/// # use neuron_loop::{Agent, Conversation, LoopError};
/// # use neuron_testing::ScriptedProvider;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LoopError> {
/// let agent = Agent::builder(ScriptedProvider::new(["Hello.", "Bonjour."])).build();
/// let mut run = agent.run_owned(Conversation::new(), "Hi");
/// let handle = run.handle();
/// handle.steer("Speak French.");
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
    is_cancelled: bool,
    /// The cancellation token of the run. Set while the run is driven.
    token: Option<CancellationToken>,
    /// The pending calls. Set while the run waits for decisions.
    pending: Option<PendingApproval>,
    /// Decisions that the run has not received yet.
    decisions: Option<ApprovalDecisions>,
    /// Wakes the run that waits for decisions.
    waiting: Option<Waker>,
    /// The conversation of an owned run. Set after the run ended or was dropped.
    conversation: Option<Conversation>,
}

impl RunHandle {
    /// Sends a message to the run. It is added to the conversation before the next model call. If it arrives after the
    /// last model call, the run continues for one more turn. If the run has ended at a limit, the message is discarded.
    pub fn steer(&self, message: impl Into<Message>) {
        lock(&self.0).sent.push(message.into());
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

    /// Returns the pending calls of a run that [waits for an approval](crate::Run::wait_for_approval). Returns `None`
    /// while the run does not wait.
    #[must_use]
    pub fn pending(&self) -> Option<PendingApproval> {
        lock(&self.0).pending.clone()
    }

    /// Decides on the pending calls of a run that [waits for an approval](crate::Run::wait_for_approval).
    pub fn decide(&self, decisions: ApprovalDecisions) {
        let mut control = lock(&self.0);
        control.decisions = Some(decisions);
        // FAULT a decision does not wake the run: without the statement
        //     (agent::decision_and_cancellation_wake_a_run_that_waits_for_approval)
        if let Some(waiting) = control.waiting.take() {
            waiting.wake();
        }
    }

    /// Takes the conversation of an owned run. Returns `None` if the run has not ended, or if the conversation was
    /// already taken.
    #[must_use]
    pub fn take_conversation(&self) -> Option<Conversation> {
        lock(&self.0).conversation.take()
    }

    /// Returns a token for the run, which is cancelled by `outer` or by the handle.
    pub(super) fn attach(&self, outer: &CancellationToken) -> CancellationToken {
        let (mut control, token) = (lock(&self.0), outer.child_token());
        // FAULT a run that was cancelled before it began runs: `control.is_cancelled` -> `false`
        //     (agent::handle_and_context_both_cancel_the_run_and_its_tools)
        if control.is_cancelled {
            token.cancel();
        }
        control.token = Some(token.clone());
        token
    }

    /// Returns a copy of the waiting messages, which were sent to the run and are not in the conversation yet.
    pub(super) fn sent(&self) -> Vec<Message> {
        lock(&self.0).sent.clone()
    }

    /// Removes the first `count` waiting messages, because the run has added them to the conversation.
    pub(super) fn taken(&self, count: usize) {
        lock(&self.0).sent.drain(..count);
    }

    /// Waits for decisions on the pending calls.
    pub(super) async fn decided(&self, pending: &PendingApproval) -> ApprovalDecisions {
        lock(&self.0).pending = Some(pending.clone());
        // Cleared on drop too, because a dropped wait can no longer receive decisions.
        // FAULT a run names its waiting calls for a moment: `let _over` -> `let _`
        //     (agent::waiting_run_continues_with_decisions_from_its_handle)
        let _over = scopeguard::guard((), |()| lock(&self.0).pending = None);
        poll_fn(|cx| {
            let mut control = lock(&self.0);
            match control.decisions.take() {
                Some(decisions) => Poll::Ready(decisions),
                None => {
                    control.waiting = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Stores the conversation for [`take_conversation`](Self::take_conversation).
    pub(super) fn give_back(&self, conversation: Conversation) {
        lock(&self.0).conversation = Some(conversation);
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("sent", &lock(&self.0).sent.len()).finish_non_exhaustive()
    }
}
