//! [`Outbox`], the queue of a call's notifications, such as progress and log messages. The notifications are passed to
//! the SDK in order, before the result of the call.
//!
//! Over a pair of streams, the client receives them in this order. Over HTTP before protocol version 2026-07-28, the
//! stream of the call contains only progress. All other notifications are sent on the client's listening stream
//! (`GET`), and dropped if the client has none.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::ServerNotification;
use rmcp::{Peer, RoleServer};
use tokio::sync::Notify;

/// Maximum number of queued notifications of one call. If the client reads slowly and the queue is full, the oldest
/// notification is dropped.
///
/// Cancellations of requests to the client are never dropped. Their number is limited, because each request has at most
/// one cancellation.
const CAPACITY: usize = 256;

/// The queued notifications of one call. User code adds notifications, and [`pump`](Self::pump) sends them.
#[derive(Default)]
pub(crate) struct Outbox {
    /// The queued notifications, and a flag that is set when the queue is closed.
    queue: Mutex<Queue>,
    /// Wakes [`pump`](Outbox::pump) after each change of the queue.
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    /// Notifications to send, oldest first.
    waiting: VecDeque<ServerNotification>,
    /// Set when the call is over or has become a task. Further notifications are dropped.
    is_closed: bool,
}

impl Outbox {
    /// Queues a notification without blocking. Drops the notification if the call is over. If the queue is full, drops
    /// the oldest queued notification that is not a cancellation.
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

    /// Closes the queue of the call's notifications. Queued notifications are still sent, and further notifications are
    /// dropped.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Closes the queue of the call's notifications, and drops all queued notifications except cancellations of
    /// requests to the client.
    pub(crate) fn close_but_for_cancellations(&self) {
        self.lock().waiting.retain(is_cancellation);
        self.close();
    }

    /// Sends the queued notifications in order. Returns when the call is over and all notifications are sent, or when
    /// the client has disconnected.
    pub(crate) async fn pump(&self, peer: &Peer<RoleServer>) {
        while let Some(notification) = self.next().await {
            if peer.send_notification(notification).await.is_err() {
                self.close();
                self.lock().waiting.clear();
            }
        }
    }

    /// Waits for the next queued notification of the call. Returns `None` once the queue is closed and empty.
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
            // `notify_one` stores a permit, so a change since the check above wakes this task immediately.
            self.changed.notified().await;
        }
    }

    /// Locks the queue, even if the lock is poisoned.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` if the notification cancels a request to the client.
fn is_cancellation(notification: &ServerNotification) -> bool {
    matches!(notification, ServerNotification::CancelledNotification(_))
}
