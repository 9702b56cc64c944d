//! [`Shutdown`], the steps by which an HTTP server shuts down.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Time for which cancelled calls may still respond.
const CANCELLED_CALLS: Duration = Duration::from_secs(2);

/// The steps of a shutdown. Each step has a token, and the tokens are cancelled in the order of the fields.
///
/// Clones share the tokens.
#[derive(Clone)]
pub(crate) struct Shutdown {
    /// Cancelled when shutdown is requested. New work is then refused, and listening streams end. Running calls can
    /// still receive responses of their clients.
    asked: CancellationToken,
    /// Cancelled when the time `grace` has passed since shutdown was requested. The running calls are then cancelled.
    calls: CancellationToken,
    /// Cancelled when the time [`CANCELLED_CALLS`] has passed since `calls` was cancelled. All streams and sessions
    /// then end.
    streams: CancellationToken,
    /// Time for which running calls may continue after shutdown is requested.
    grace: Duration,
}

impl Shutdown {
    /// Creates the tokens of a shutdown. Cancelling `asked` requests the shutdown. Running calls may then continue for
    /// the time `grace`.
    pub(super) fn new(asked: CancellationToken, grace: Duration) -> Self {
        let (calls, streams) = (CancellationToken::new(), CancellationToken::new());
        Self { asked, calls, streams, grace }
    }

    /// Returns the token that requests the shutdown.
    pub(super) fn asked(&self) -> &CancellationToken {
        &self.asked
    }

    /// Returns the token that cancels running calls.
    pub(super) fn calls(&self) -> &CancellationToken {
        &self.calls
    }

    /// Returns the token that ends streams and sessions.
    pub(super) fn streams(&self) -> &CancellationToken {
        &self.streams
    }

    /// Runs the steps of a shutdown once it is requested. Cancels the token `calls` after the grace time, and the token
    /// `streams` after a further [`CANCELLED_CALLS`]. Completes after the last step.
    ///
    /// Each response stream and each task of a client runs this method, so the shutdown needs no background task. Concurrent runs have no further
    /// effect.
    pub(crate) async fn proceed(&self) {
        self.asked.cancelled().await;
        tokio::time::sleep(self.grace).await;
        self.calls.cancel();
        tokio::time::sleep(CANCELLED_CALLS).await;
        self.end();
    }

    /// Cancels all tokens of the shutdown immediately, without grace periods.
    pub(super) fn end(&self) {
        self.asked.cancel();
        self.calls.cancel();
        self.streams.cancel();
    }
}
