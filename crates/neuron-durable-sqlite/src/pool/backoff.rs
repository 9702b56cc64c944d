//! Pauses before a pool opens a run again ([`Backoff`]).

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::due::Due;

/// First pause after an attempt to drive a run that stored no outcome of the run. For a stalled run, the first pause is
/// [`STALLED`].
const FIRST: Duration = Duration::from_secs(1);
/// First pause before the pool opens a [stalled](crate::RunStatus::Stalled) run again. Such a run cannot continue until
/// its cause is removed, for example until the agent is corrected.
const STALLED: Duration = Duration::from_secs(60);
/// Longest pause before the pool opens a run again. Each further failure doubles the pause up to this length.
const LONGEST: Duration = Duration::from_secs(3600);

/// The pauses before a pool opens runs again, by the run's id.
#[derive(Debug, Default)]
pub(super) struct Backoff(HashMap<String, Pause>);

/// A pause during which a run is not opened.
#[derive(Debug)]
struct Pause {
    until: Instant,
    /// Length of the pause, which the next failure doubles.
    length: Duration,
    /// Value of [`Due::changed_at`] when the pool last found the run stalled. `None` if the pool has not found the run
    /// stalled yet.
    stood_still_at: Option<i64>,
}

impl Backoff {
    /// Returns `true` if a run may be opened now.
    pub(super) fn allows(&self, id: &str) -> bool {
        self.0.get(id).is_none_or(|pause| pause.until <= Instant::now())
    }

    /// Removes the pauses of runs that have ended, and of stalled runs that have continued. `found` contains all runs
    /// that have not ended.
    ///
    /// A stalled run has continued if it is not stalled any more and [`Due::changed_at`] has changed. For example, the
    /// run has continued as new, or was [revived](crate::SqliteRuns::revive).
    pub(super) fn keep(&mut self, found: &[Due]) {
        let found: HashMap<&str, &Due> = found.iter().map(|run| (&*run.id, run)).collect();
        self.0.retain(|id, pause| match found.get(id.as_str()) {
            None => false,
            Some(run) if run.is_stalled => {
                pause.stood_still_at = Some(run.changed_at);
                true
            }
            Some(run) => pause.stood_still_at.is_none_or(|at| at == run.changed_at),
        });
    }

    /// Removes the pause of a run.
    pub(super) fn forget(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Starts a pause of this length for the run `id`.
    pub(super) fn skip(&mut self, id: String, length: Duration) {
        let until = Instant::now() + length;
        self.0.insert(id, Pause { until, length, stood_still_at: None });
    }

    /// Starts a pause of twice the length of the run's last pause. The maximum is [`LONGEST`]. The minimum, and the
    /// first pause, is [`STALLED`] if `is_stalled` is `true`, and [`FIRST`] otherwise.
    pub(super) fn failed(&mut self, id: String, is_stalled: bool) {
        let first = if is_stalled { STALLED } else { FIRST };
        let length = self.0.get(&id).map_or(first, |pause| (pause.length * 2).min(LONGEST));
        self.skip(id, length.max(first));
    }
}

#[cfg(test)]
mod tests {
    use crate::pool::due::Moment;

    use super::*;

    fn found(is_stalled: bool, changed_at: i64) -> Vec<Due> {
        let (id, moment) = ("r".into(), Moment::Now);
        vec![Due { id, has_start: true, is_stalled, changed_at, moment }]
    }

    #[test]
    fn pause_of_a_stalled_run_ends_when_it_is_revived() {
        let mut backoff = Backoff::default();
        backoff.failed("r".into(), true);
        // Another pool opens the run, and the run stalls again. The first argument is `true` for a stalled run.
        for run in [found(false, 1), found(true, 2), found(false, 2), found(true, 3)] {
            backoff.keep(&run);
            assert!(!backoff.allows("r"));
        }
        backoff.keep(&found(false, 4));
        assert!(backoff.allows("r"));
    }

    #[test]
    fn pause_of_an_ended_run_is_removed() {
        let mut backoff = Backoff::default();
        backoff.failed("r".into(), false);
        backoff.keep(&found(false, 1));
        assert!(!backoff.allows("r"));
        backoff.keep(&[]);
        assert!(backoff.allows("r"));
    }
}
