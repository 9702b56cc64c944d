//! Parking, by which a run of a pool releases its place while it waits.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

/// Length of a wait that a run of a pool sits out in its place. To open a run again takes a replay.
pub(crate) const GRACE: Duration = Duration::from_millis(200);

/// The link between a run and the pool that drives it. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parking(Arc<Notify>);

impl Parking {
    /// Tells the pool that the run only waits. The pool drops the run here.
    pub(crate) async fn park(&self) {
        self.0.notify_one();
        pending().await
    }

    /// Waits until the run is parked.
    pub(crate) async fn parked(&self) {
        self.0.notified().await;
    }
}
