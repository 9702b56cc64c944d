//! How a server over HTTP ends: step by step, so that nothing breaks off that need not.

use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a cancelled call may take to say so.
const CANCELLED_CALLS: Duration = Duration::from_secs(2);

/// The steps of a shutdown. Each token is cancelled once the one before it was.
pub(super) struct Shutdown {
    /// Shutdown was asked for: nothing new begins, and streams end on which a client only listens. Calls still
    /// get answers to what they ask.
    asked: CancellationToken,
    /// Calls had their time: they are cancelled.
    calls: CancellationToken,
    /// Cancelled calls had theirs: all streams and sessions end.
    streams: CancellationToken,
    grace: Duration,
    /// Sessions end with the server also if nobody asked.
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

    /// Waits until shutdown was asked for and calls had their time, and takes the steps at their times. Any
    /// number may wait; what is done is done once.
    pub(super) async fn proceed(&self) {
        self.asked.cancelled().await;
        tokio::time::sleep(self.grace).await;
        self.calls.cancel();
        tokio::time::sleep(CANCELLED_CALLS).await;
        self.end();
    }

    /// Takes all steps at once.
    pub(super) fn end(&self) {
        self.asked.cancel();
        self.calls.cancel();
        self.streams.cancel();
    }
}
