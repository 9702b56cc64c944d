//! Graceful shutdown of an HTTP server, in steps.

use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

/// Grace period for cancelled calls to respond.
const CANCELLED_CALLS: Duration = Duration::from_secs(2);

/// The steps of a shutdown. Each token is cancelled after the token before it.
pub(super) struct Shutdown {
    /// Shutdown was requested. No new work is accepted and listening streams end. Running calls still receive the
    /// responses of their clients.
    asked: CancellationToken,
    /// The grace period is over and calls are cancelled.
    calls: CancellationToken,
    /// The grace period of cancelled calls is over. All streams and sessions end.
    streams: CancellationToken,
    grace: Duration,
    /// Ends the sessions when the server is dropped without a shutdown.
    _at_the_end: DropGuard,
}

impl Shutdown {
    pub(super) fn new(asked: CancellationToken, grace: Duration) -> Self {
        let streams = CancellationToken::new();
        Self {
            asked,
            calls: CancellationToken::new(),
            streams: streams.clone(),
            grace,
            _at_the_end: streams.drop_guard(),
        }
    }

    pub(super) fn asked(&self) -> &CancellationToken {
        &self.asked
    }

    pub(super) fn calls(&self) -> &CancellationToken {
        &self.calls
    }

    pub(super) fn streams(&self) -> &CancellationToken {
        &self.streams
    }

    /// Waits for the shutdown and its grace periods, and cancels the tokens in time. Any number of tasks may run this
    /// at the same time.
    pub(super) async fn proceed(&self) {
        self.asked.cancelled().await;
        tokio::time::sleep(self.grace).await;
        self.calls.cancel();
        tokio::time::sleep(CANCELLED_CALLS).await;
        self.end();
    }

    /// Cancels all tokens at once.
    pub(super) fn end(&self) {
        self.asked.cancel();
        self.calls.cancel();
        self.streams.cancel();
    }
}
