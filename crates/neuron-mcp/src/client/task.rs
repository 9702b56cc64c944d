//! Tasks that run independently of their callers.

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::Instrument;

/// A spawned task. Dropping the value aborts the task.
#[derive(Debug)]
pub(super) struct Task<T = ()>(JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    /// Spawns a task inside the current span.
    pub(super) fn spawn(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(tokio::spawn(work.in_current_span()))
    }

    /// Spawns a task outside of the current span. A task inside the span would keep the span open until the task ends.
    pub(super) fn detached(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }

    /// Waits for the result of the task. Returns `None` if the task panicked or its runtime ended.
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
