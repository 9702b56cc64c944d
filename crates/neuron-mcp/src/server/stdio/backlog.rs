//! What waits to be written: a client that writes and does not read must not fill the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// How much may wait, in bytes, while more is read.
const LIMIT: usize = 32 * 1024 * 1024;

/// What a message takes besides its bytes: the task that waits.
const EACH: usize = 1024;

/// How much waits to be written.
#[derive(Default)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
    shrunk: Notify,
}

impl Backlog {
    /// Counts a message of this length as long as the result lives.
    pub(super) fn count(self: &Arc<Self>, length: usize) -> Waiting {
        let bytes = length.saturating_add(EACH);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Waiting { backlog: self.clone(), bytes }
    }

    /// Waits until little enough waits. For one at a time.
    pub(super) async fn room(&self) {
        while self.bytes.load(Ordering::Relaxed) > LIMIT {
            self.shrunk.notified().await;
        }
    }
}

/// A message that waits to be written.
pub(super) struct Waiting {
    backlog: Arc<Backlog>,
    bytes: usize,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.backlog.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.backlog.shrunk.notify_one();
    }
}
