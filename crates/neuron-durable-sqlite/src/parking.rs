//! Releases the place of a run in its pool while the run waits ([`Parking`]).

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// Time that a waiting run keeps its place in the pool. If the wait ends within this time, the run is not opened and
/// replayed again.
pub(crate) const GRACE: Duration = Duration::from_millis(200);

/// The notification by which a waiting run releases its place in the pool that drives it. Clones share the
/// notification.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parking(Arc<Notify>);

impl Parking {
    /// Notifies the pool that the run only waits for a signal or a time. Never returns, because the pool then drops the
    /// future of the run.
    pub(crate) async fn park(&self) {
        self.0.notify_one();
        pending().await
    }

    /// Waits until the run calls [`park`](Self::park).
    pub(crate) async fn parked(&self) {
        self.0.notified().await;
    }
}
