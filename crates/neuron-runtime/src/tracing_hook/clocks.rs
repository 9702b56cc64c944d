//! Durations of runs and calls. The start of a call is kept while its run lasts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use neuron_types::HookScope;

/// When runs and calls began, by the id of the run. A run is known while a scope of it is open, so that
/// one that is dropped leaves nothing here.
#[derive(Debug, Default)]
pub(super) struct Clocks(Mutex<HashMap<String, RunClock>>);

#[derive(Debug)]
struct RunClock {
    /// Several agents may have been given one run id.
    open: usize,
    began: Instant,
    /// Start times by the id of a tool call. `None` is the call of the model.
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

    /// Notes that a call begins.
    pub(super) fn start(&self, scope: &HookScope<'_>) {
        if let Some(run) = self.lock().get_mut(scope.run_id) {
            run.calls.insert(scope.call_id.map(str::to_owned), Instant::now());
        }
    }

    /// Returns the milliseconds since a call began, if that is known.
    pub(super) fn since_start(&self, scope: &HookScope<'_>) -> Option<u64> {
        let call = scope.call_id.map(str::to_owned);
        millis(*self.lock().get(scope.run_id)?.calls.get(&call)?)
    }

    /// The same at the call's end.
    pub(super) fn stop(&self, scope: &HookScope<'_>) -> Option<u64> {
        let call = scope.call_id.map(str::to_owned);
        millis(self.lock().get_mut(scope.run_id)?.calls.remove(&call)?)
    }

    /// Returns the milliseconds since a run began, if that is known.
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
    fn a_run_is_known_while_one_of_its_scopes_is_open() {
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
