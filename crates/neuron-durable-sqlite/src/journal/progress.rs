//! Progress of a long replay, for the log.

use std::time::{Duration, Instant};

/// Replays of fewer steps are not reported.
const LONG: usize = 100;

/// Interval between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// The replay of a journal's steps.
#[derive(Debug)]
pub(super) struct Progress {
    replayed: usize,
    of: usize,
    /// Time of the last report.
    reported: Option<Instant>,
}

impl Progress {
    /// Creates the progress of a replay of so many steps.
    pub(super) fn of(steps: usize) -> Self {
        Self { replayed: 0, of: steps, reported: None }
    }

    /// Counts steps that were replayed, and reports the beginning of a long replay, its progress and its end.
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
            // Steps that were given up halfway may be asked for again.
            self.of = 0;
        } else if self.reported.is_some_and(|at| at.elapsed() >= INTERVAL) {
            self.report(run, "a journal is replayed");
        }
    }

    fn report(&mut self, run: &str, text: &str) {
        self.reported = Some(Instant::now());
        tracing::info!(run, replayed = self.replayed, of = self.of, "{text}");
    }
}
