//! Runs of an agent under faults.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};

use super::Trial;
use super::plan::Plan;
use super::promise::BrokenPromise;
use super::report::{BrokenRun, Report};
use super::trial::Ended;

/// A test that runs an agent many times under faults. See the [module](super).
#[derive(Debug, Clone)]
#[must_use]
pub struct FaultTest {
    runs: u64,
    first_seed: u64,
    concurrency: usize,
    timeout: Duration,
}

impl Default for FaultTest {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultTest {
    /// Creates a test with 1,000 runs, whose seeds are 1 to 1,000.
    pub fn new() -> Self {
        Self { runs: 1_000, first_seed: 1, concurrency: 8, timeout: Duration::from_secs(60) }
    }

    /// Sets the number of runs with faults. Default: 1,000.
    ///
    /// The runs have the seeds 1, 2 and so on, or begin at another [first seed](Self::seed). The seeds are the same in
    /// each execution of the test, so each execution injects the same faults.
    ///
    /// In a test of a durable agent, the first runs have one crash each. The run with the seed 1 crashes at the first
    /// place that allows a crash, and the next run crashes at the second place. Set at least as many runs as the
    /// [report](Report::boundaries) has such places.
    pub fn runs(mut self, runs: u64) -> Self {
        self.runs = runs;
        self
    }

    /// Sets the seed of the first run. Each further run has the next seed. Default and minimum: 1.
    ///
    /// To repeat only the run with the seed 6 of a report, call `.seed(6).runs(1)`. With a first seed above 1, a test of
    /// a durable agent leaves out runs with a single crash.
    pub fn seed(mut self, first: u64) -> Self {
        // The run without faults has the seed 0.
        self.first_seed = first.max(1);
        self
    }

    /// Sets the maximum number of concurrent runs. Default: 8. Minimum: 1.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.concurrency = runs.max(1);
        self
    }

    /// Sets the maximum time of a run. Default: 60 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs `test` once without faults and then once for each seed, and reports the promises that the runs broke.
    ///
    /// `test` creates everything that outlives a crash, such as fakes of the services that the tools call. Then `test`
    /// calls [`Trial::execute`] with the agent.
    ///
    /// All runs are in the task of the caller, so `test` must not block the thread.
    ///
    /// # Panics
    ///
    /// Panics if `test` does not call [`Trial::execute`], if the run without faults fails, or outside of a tokio
    /// runtime with timers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops all runs.
    #[expect(clippy::panic, reason = "a wrong test, and not a result")]
    pub async fn run(&self, test: impl AsyncFn(&Trial)) -> Report {
        let expected = self.try_one(Trial::new(0, Plan::without_faults()), &test).await;
        match (&expected.outcome, expected.broken.first()) {
            (Some(Ok(_)), _) => {}
            (Some(Err(error)), _) => panic!("the run without faults failed: {error}"),
            (None, Some(broken)) => panic!("the run without faults: {broken}"),
            (None, None) => panic!("the test did not call `Trial::execute`"),
        }
        let mut report = Report { boundaries: expected.boundaries, ..Report::default() };
        let seeds = (0..self.runs).map_while(|run| self.first_seed.checked_add(run));
        let (expected, test) = (&expected, &test);
        let mut runs: Vec<BrokenRun> = stream::iter(seeds)
            .map(async |seed| {
                let plan = Plan::of_seed(seed, expected.boundaries);
                (seed, self.try_one(Trial::new(seed, plan), test).await)
            })
            .buffer_unordered(self.concurrency)
            .map(|(seed, ended)| {
                report.runs += 1;
                report.faults += ended.faults.len();
                report.crashes += ended.crashes;
                let faults = ended.faults.clone();
                BrokenRun { seed, faults, broken: ended.broken_promises(expected) }
            })
            .collect()
            .await;
        // Runs end in any order. The report has the order of the seeds.
        runs.sort_by_key(|run| run.seed);
        let without_faults =
            BrokenRun { seed: 0, faults: Vec::new(), broken: expected.broken.clone() };
        runs.insert(0, without_faults);
        runs.retain(|run| !run.broken.is_empty());
        report.broken = runs;
        report
    }

    async fn try_one(&self, trial: Trial, test: &impl AsyncFn(&Trial)) -> Ended {
        let run = AssertUnwindSafe(test(&trial)).catch_unwind();
        match tokio::time::timeout(self.timeout, run).await {
            Ok(Ok(())) => {}
            Ok(Err(panic)) => {
                let message = panic.downcast_ref::<String>().cloned();
                let message =
                    message.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).into()));
                let message = message.unwrap_or_default();
                trial.report(BrokenPromise::Panicked { message });
            }
            Err(_) => trial.report(BrokenPromise::DidNotEnd { timeout: self.timeout }),
        }
        // Tasks that outlive the run get a chance to have their effects before the trial ends.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        trial.end()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::convert::Infallible;

    use super::*;

    /// Runs a test, and returns the seeds of its trials in their order.
    async fn seeds(test: FaultTest) -> Vec<u64> {
        let seeds = RefCell::new(Vec::new());
        let report = test
            .concurrency(1)
            .run(async |trial| {
                seeds.borrow_mut().push(trial.seed());
                trial.execute(async || Ok::<_, Infallible>("hello".to_owned())).await;
            })
            .await;
        report.assert_kept();
        let seeds = seeds.into_inner();
        assert_eq!(seeds.len(), report.runs + 1);
        seeds
    }

    #[tokio::test]
    async fn seed_and_runs_select_the_runs_in_any_order_of_the_calls() {
        // The run without faults has the seed 0.
        assert_eq!(seeds(FaultTest::new().runs(3)).await, [0, 1, 2, 3]);
        assert_eq!(seeds(FaultTest::new().runs(2).seed(6)).await, [0, 6, 7]);
        assert_eq!(seeds(FaultTest::new().seed(6).runs(2)).await, [0, 6, 7]);
        assert_eq!(seeds(FaultTest::new().seed(6)).await.len(), 1_001);
    }

    #[tokio::test]
    async fn seeds_are_limited_to_their_range() {
        assert_eq!(seeds(FaultTest::new().seed(0).runs(1)).await, [0, 1]);
        assert_eq!(seeds(FaultTest::new().seed(u64::MAX).runs(2)).await, [0, u64::MAX]);
    }
}
