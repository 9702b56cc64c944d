//! What a call tells the client while it runs: progress and log messages, handed to the SDK in order and before
//! the result.
//!
//! On one connection they arrive so. Over HTTP before 2026-07-28 the SDK sends only progress on the call's own
//! stream; all else goes to the stream on which the client listens (`GET`), if it has one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::ServerNotification;
use rmcp::{Peer, RoleServer};
use tokio::sync::Notify;

/// How many notifications wait for a slow client. The oldest make room for new ones, but for those that tell
/// the client that nobody waits for its answer: of these there is one for each question at most.
const CAPACITY: usize = 256;

/// The notifications of one call that were not sent yet.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<ServerNotification>,
    /// The call is over: nothing is taken any more.
    is_closed: bool,
}

impl Outbox {
    /// Takes a notification. Does not block; what comes after the call is dropped.
    pub(crate) fn push(&self, notification: ServerNotification) {
        let mut queue = self.lock();
        if queue.is_closed {
            return;
        }
        if queue.waiting.len() >= CAPACITY {
            let oldest = queue.waiting.iter().position(|waiting| !is_cancellation(waiting));
            if let Some(oldest) = oldest {
                queue.waiting.remove(oldest);
            }
        }
        queue.waiting.push_back(notification);
        drop(queue);
        self.changed.notify_one();
    }

    /// Whether nothing is taken any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Takes nothing more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Takes nothing more, and forgets what was taken but for what tells the client that nobody waits for it.
    pub(crate) fn close_but_for_cancellations(&self) {
        self.lock().waiting.retain(is_cancellation);
        self.close();
    }

    /// Sends what is taken, one after the other, until the outbox is closed and empty or the client is gone.
    pub(crate) async fn pump(&self, peer: &Peer<RoleServer>) {
        while let Some(notification) = self.next().await {
            if peer.send_notification(notification).await.is_err() {
                self.close();
                self.lock().waiting.clear();
            }
        }
    }

    async fn next(&self) -> Option<ServerNotification> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(notification) = queue.waiting.pop_front() {
                    return Some(notification);
                }
                if queue.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_cancellation(notification: &ServerNotification) -> bool {
    matches!(notification, ServerNotification::CancelledNotification(_))
}
