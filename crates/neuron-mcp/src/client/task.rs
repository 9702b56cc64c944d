//! Tasks that run even if nothing waits for their result.

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::Instrument;

/// A task that is aborted on drop.
#[derive(Debug)]
pub(super) struct Task<T = ()>(JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    pub(super) fn spawn(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(tokio::spawn(work.in_current_span()))
    }

    /// Spawns a task outside of the current span, because its own spans may live longer.
    pub(super) fn detached(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Waits for the result. `None` if the task panicked or its runtime ended.
    pub(super) async fn result(mut self) -> Option<T> {
        (&mut self.0).await.ok()
    }

    /// Aborts the task and waits until it has ended.
    pub(super) async fn stop(self) {
        self.0.abort();
        self.result().await;
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
