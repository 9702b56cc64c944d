//! Time limits of a request.

use std::time::Duration;

use tokio::time::Instant;

/// The two deadlines of a request to a server. Both deadlines are paused while this client handles a request of the
/// server.
pub(super) struct Clock {
    /// Maximum time without a progress report of the server.
    idle: Duration,
    /// Deadline for the next progress report. `None` for no limit.
    idle_until: Option<Instant>,
    /// Maximum duration of the request.
    total: Duration,
    /// Deadline of the request. `None` for no limit.
    total_until: Option<Instant>,
    /// Time when the current pause of both deadlines of the request began. `None` if the deadlines are not paused.
    paused_at: Option<Instant>,
}

impl Clock {
    /// Starts both time limits of a request. `idle` is the maximum time until the server reports progress. `total` is
    /// the maximum duration.
    pub(super) fn start(idle: Duration, total: Duration) -> Self {
        let now = Instant::now();
        Self {
            idle,
            // `checked_add` returns `None` for a huge duration, which then is no limit.
            idle_until: now.checked_add(idle),
            total,
            total_until: now.checked_add(total),
            paused_at: None,
        }
    }

    /// Moves the deadline for the next progress report to the full limit from now. Called when the server reports
    /// progress.
    pub(super) fn restart(&mut self) {
        self.idle_until = Instant::now().checked_add(self.idle);
    }

    /// Pauses both deadlines if `paused` is `true`, and otherwise ends the pause. After a pause, the total time
    /// continues where it stopped. The time without progress starts anew.
    pub(super) fn pause(&mut self, paused: bool) {
        match (paused, self.paused_at) {
            (true, None) => self.paused_at = Some(Instant::now()),
            (false, Some(since)) => {
                let now = Instant::now();
                self.total_until =
                    self.total_until.and_then(|until| until.checked_add(now - since));
                self.paused_at = None;
                self.restart();
            }
            _ => {}
        }
    }

    /// Waits until a deadline has passed, and returns the time limit that was exceeded. Never completes while the
    /// deadlines are paused.
    pub(super) async fn expired(&self) -> Duration {
        if self.paused_at.is_some() {
            return std::future::pending().await;
        }
        let until = async |until: Option<Instant>| match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        };
        tokio::select! {
            () = until(self.total_until) => self.total,
            () = until(self.idle_until) => self.idle,
        }
    }
}
