//! Releases the place of a run in its pool while the run waits ([`Parking`]).

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// Time that a waiting run keeps its place in the pool. A short wait ends within this time, and avoids the replay that
/// opening the run again needs.
pub(crate) const GRACE: Duration = Duration::from_millis(200);

/// The link between a run and the pool that drives it. Clones share the same link.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parking(Arc<Notify>);

impl Parking {
    /// Tells the pool that the run only waits, and never returns. The pool then drops the future of the run.
    pub(crate) async fn park(&self) {
        self.0.notify_one();
        pending().await
    }

    /// Waits until the run is parked.
    pub(crate) async fn parked(&self) {
        self.0.notified().await;
    }
}
