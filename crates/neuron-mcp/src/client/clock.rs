//! The time limits of a request.

use std::time::Duration;

use tokio::time::Instant;

/// The idle and the total time limit of a request. Both are paused while the server waits for this client.
pub(super) struct Clock {
    idle: Duration,
    idle_until: Option<Instant>,
    total: Duration,
    total_until: Option<Instant>,
    paused_at: Option<Instant>,
}

impl Clock {
    pub(super) fn start(idle: Duration, total: Duration) -> Self {
        let now = Instant::now();
        Self {
            idle,
            // A limit beyond the range of `Instant` is no limit.
            idle_until: now.checked_add(idle),
            total,
            total_until: now.checked_add(total),
            paused_at: None,
        }
    }

    /// Restarts the idle limit after progress.
    pub(super) fn restart(&mut self) {
        self.idle_until = Instant::now().checked_add(self.idle);
    }

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

    /// Waits until a limit is exceeded, and returns the limit.
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
