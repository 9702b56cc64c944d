//! Measures the durations of runs and calls. The start time of a call is stored until the call or its run ends.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use neuron_types::HookScope;

/// Start times of runs and their calls, by run id. The entry of a run is removed when the last span of the run is
/// closed, even if the run was dropped.
#[derive(Debug, Default)]
pub(super) struct Clocks(Mutex<HashMap<String, RunClock>>);

#[derive(Debug)]
struct RunClock {
    /// Number of open spans of the run. Several agents may have the same run id.
    open: usize,
    began: Instant,
    /// Start times of calls by tool call id. The key `None` is the current call of the model.
    calls: HashMap<Option<String>, Instant>,
}

impl Clocks {
    pub(super) fn open_run(&self, run_id: &str) {
        let new = || RunClock { open: 0, began: Instant::now(), calls: HashMap::new() };
        let mut runs = self.lock();
        let run = runs.entry(run_id.to_owned()).or_insert_with(new);
        run.open = run.open.saturating_add(1);
    }

    pub(super) fn close_run(&self, run_id: &str) {
        let mut runs = self.lock();
        if let Some(run) = runs.get_mut(run_id) {
            run.open = run.open.saturating_sub(1);
            if run.open == 0 {
                runs.remove(run_id);
            }
        }
    }

    /// Stores the start time of the model call or tool call to which `scope` belongs. Does nothing if no span of the
    /// run is open.
    pub(super) fn start(&self, scope: &HookScope<'_>) {
        if let Some(run) = self.lock().get_mut(scope.run_id) {
            run.calls.insert(scope.call_id.map(str::to_owned), Instant::now());
        }
    }

    /// Returns the milliseconds since the start of the model call or tool call to which `scope` belongs. Returns `None`
    /// if its start time is unknown.
    pub(super) fn since_start(&self, scope: &HookScope<'_>) -> Option<u64> {
        let call = scope.call_id.map(str::to_owned);
        millis(*self.lock().get(scope.run_id)?.calls.get(&call)?)
    }

    /// Returns the milliseconds since the start of the model call or tool call to which `scope` belongs, and removes
    /// its start time. Returns `None` if the start time is unknown.
    pub(super) fn stop(&self, scope: &HookScope<'_>) -> Option<u64> {
        let call = scope.call_id.map(str::to_owned);
        millis(self.lock().get_mut(scope.run_id)?.calls.remove(&call)?)
    }

    /// Returns the milliseconds since the run began. Returns `None` if the run has not begun or has ended.
    pub(super) fn since_run(&self, run_id: &str) -> Option<u64> {
        millis(self.lock().get(run_id)?.began)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, RunClock>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

fn millis(began: Instant) -> Option<u64> {
    u64::try_from(began.elapsed().as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_known_until_its_last_scope_closes() {
        let clocks = Clocks::default();
        let scope = HookScope::new("run", 0, "", "");
        clocks.start(&scope);
        assert!(clocks.is_empty() && clocks.since_run("run").is_none());

        clocks.open_run("run");
        clocks.open_run("run");
        clocks.start(&scope);
        clocks.start(&scope.in_call("c1"));
        assert!(clocks.since_run("run").is_some() && clocks.since_start(&scope).is_some());
        assert!(clocks.stop(&scope).is_some() && clocks.stop(&scope).is_none());
        clocks.close_run("run");
        assert!(clocks.stop(&scope.in_call("c1")).is_some());
        clocks.close_run("run");
        clocks.close_run("run");
        assert!(clocks.is_empty());
    }
}
