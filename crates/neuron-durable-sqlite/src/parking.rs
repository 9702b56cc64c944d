//! Releases the place of a run in its pool while the run waits ([`Parking`]).

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// Time that a waiting run keeps its place in the pool. A short wait ends within this time, and avoids the replay that
/// opening the run again needs.
pub(crate) const GRACE: Duration = Duration::from_millis(200);

/// The notification by which a waiting run releases its place in the pool that drives it. Clones share the
/// notification.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parking(Arc<Notify>);

impl Parking {
    /// Tells the pool that the run only waits for a signal or a time. The returned future never ends, because the pool
    /// drops it together with the future of the run.
    pub(crate) async fn park(&self) {
        self.0.notify_one();
        pending().await
    }

    /// Waits until the run calls [`park`](Self::park).
    pub(crate) async fn parked(&self) {
        self.0.notified().await;
    }
}
