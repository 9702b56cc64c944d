//! Control over a live run from outside.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use neuron_types::{ApprovalDecisions, Message, PendingApproval};
use tokio_util::sync::CancellationToken;

use crate::Conversation;
use crate::lock::lock;

/// Control over a live run from outside. It sends messages, cancels, decides on calls, and takes the conversation back.
/// Clones control the same run.
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

#[derive(Default)]
struct Control {
    /// Messages for the run.
    sent: Vec<Message>,
    is_cancelled: bool,
    /// The token of the run, while it is driven.
    token: Option<CancellationToken>,
    /// The calls that wait, while the run waits for decisions.
    pending: Option<PendingApproval>,
    decisions: Option<ApprovalDecisions>,
    /// The run that waits for decisions.
    waiting: Option<Waker>,
    /// The conversation of an owned run that ended or was dropped.
    conversation: Option<Conversation>,
}

impl RunHandle {
    /// Sends a message to the run. It enters the conversation before the next call of the model. A message that arrives
    /// after the last call makes the run go on for one more turn, unless a limit ended it.
    pub fn steer(&self, message: impl Into<Message>) {
        lock(&self.0).sent.push(message.into());
    }

    /// Cancels the run, as [`ToolContext::cancellation_token`](neuron_types::ToolContext::cancellation_token) does.
    pub fn cancel(&self) {
        let mut control = lock(&self.0);
        control.is_cancelled = true;
        if let Some(token) = &control.token {
            token.cancel();
        }
    }

    /// Returns the calls that wait for a decision, of a run that [waits for it](crate::Run::wait_for_approval).
    #[must_use]
    pub fn pending(&self) -> Option<PendingApproval> {
        lock(&self.0).pending.clone()
    }

    /// Decides on the calls of a run that [waits for it](crate::Run::wait_for_approval).
    pub fn decide(&self, decisions: ApprovalDecisions) {
        let mut control = lock(&self.0);
        control.decisions = Some(decisions);
        if let Some(waiting) = control.waiting.take() {
            waiting.wake();
        }
    }

    /// Takes the conversation of an owned run that ended or was dropped.
    #[must_use]
    pub fn take_conversation(&self) -> Option<Conversation> {
        lock(&self.0).conversation.take()
    }

    /// The token of a run with this handle, which `outer` and the handle cancel.
    pub(super) fn attach(&self, outer: &CancellationToken) -> CancellationToken {
        let (mut control, token) = (lock(&self.0), outer.child_token());
        if control.is_cancelled {
            token.cancel();
        }
        control.token = Some(token.clone());
        token
    }

    pub(super) fn sent(&self) -> Vec<Message> {
        lock(&self.0).sent.clone()
    }

    /// Forgets the first messages, which the run has.
    pub(super) fn taken(&self, count: usize) {
        lock(&self.0).sent.drain(..count);
    }

    /// Waits for decisions on calls.
    pub(super) async fn decided(&self, pending: &PendingApproval) -> ApprovalDecisions {
        lock(&self.0).pending = Some(pending.clone());
        // Nobody waits any more, also if the wait is dropped.
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

    pub(super) fn give_back(&self, conversation: Conversation) {
        lock(&self.0).conversation = Some(conversation);
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("sent", &lock(&self.0).sent.len()).finish_non_exhaustive()
    }
}
