//! Times before which a pool does not open a run again.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// First pause of a run that failed without an end.
const FIRST: Duration = Duration::from_secs(1);
/// First pause of a run that stands still: it goes on when its agent or its journal has changed.
const STALLED: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(3600);

/// The pauses of runs, by id.
#[derive(Debug, Default)]
pub(super) struct Backoff(HashMap<String, Pause>);

#[derive(Debug)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl Backoff {
    /// Returns `true` if a run may be opened now.
    pub(super) fn allows(&self, id: &str) -> bool {
        self.0.get(id).is_none_or(|pause| pause.until <= Instant::now())
    }

    pub(super) fn forget(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Leaves a run alone for a while.
    pub(super) fn skip(&mut self, id: String, length: Duration) {
        self.0.insert(id, Pause { until: Instant::now() + length, length });
    }

    /// Leaves a run alone for twice as long as the last time.
    pub(super) fn failed(&mut self, id: String, is_stalled: bool) {
        let first = if is_stalled { STALLED } else { FIRST };
        let length = self.0.get(&id).map_or(first, |pause| (pause.length * 2).min(LONGEST));
        self.skip(id, length.max(first));
    }
}
