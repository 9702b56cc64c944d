//! Reports the progress of a long replay as [`tracing`] events.

use std::time::{Duration, Instant};

/// Minimum number of steps of a replay that is reported.
const LONG: usize = 100;

/// Minimum interval between two `tracing` events about the progress of a replay.
const INTERVAL: Duration = Duration::from_secs(1);

/// Counts the replayed steps of a journal.
#[derive(Debug)]
pub(super) struct Progress {
    replayed: usize,
    of: usize,
    /// Time of the last report. `None` before the first report.
    reported: Option<Instant>,
}

impl Progress {
    /// Creates the progress of a replay with `steps` recorded steps.
    pub(super) fn of(steps: usize) -> Self {
        Self { replayed: 0, of: steps, reported: None }
    }

    /// Counts `steps` more replayed steps. Reports the beginning of a long replay, its progress every second, and its
    /// end.
    pub(super) fn advance(&mut self, run: &str, steps: usize) {
        if steps == 0 || self.of < LONG {
            return;
        }
        if self.reported.is_none() {
            self.report(run, "the replay of a journal begins");
        }
        self.replayed = self.replayed.saturating_add(steps).min(self.of);
        if self.replayed == self.of {
            self.report(run, "the replay of a journal ended");
            // Dropped steps may be requested again, so the replay could end twice. Zero suppresses further reports.
            self.of = 0;
        } else if self.reported.is_some_and(|at| at.elapsed() >= INTERVAL) {
            self.report(run, "a journal is replayed");
        }
    }

    /// Emits a `tracing` event with `text` and the number of replayed steps. The next progress report follows after
    /// [`INTERVAL`].
    fn report(&mut self, run: &str, text: &str) {
        self.reported = Some(Instant::now());
        tracing::info!(run, replayed = self.replayed, of = self.of, "{text}");
    }
}
