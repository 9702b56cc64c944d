//! Queue of a call's notifications. Progress and log messages are passed to the SDK in order and before the result.
//!
//! One connection keeps this order. Over HTTP before 2026-07-28 the SDK sends only progress on the call's own stream.
//! Other notifications go to the client's listening stream (`GET`), if it has one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::ServerNotification;
use rmcp::{Peer, RoleServer};
use tokio::sync::Notify;

/// Maximum number of queued notifications for a slow client. When full, the oldest are dropped, except cancellations of
/// requests to the client. There is at most one cancellation for each request.
const CAPACITY: usize = 256;

/// The queued notifications of one call.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<ServerNotification>,
    /// Set when the call is over. Further notifications are dropped.
    is_closed: bool,
}

impl Outbox {
    /// Queues a notification without blocking. Drops it if the call is over.
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

    /// Returns `true` if the outbox is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Closes the outbox for new notifications.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Closes the outbox, and drops queued notifications except cancellations.
    pub(crate) fn close_but_for_cancellations(&self) {
        self.lock().waiting.retain(is_cancellation);
        self.close();
    }

    /// Sends queued notifications in order until the outbox is closed and empty, or the client is gone.
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
