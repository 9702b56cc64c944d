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
    seed: Option<u64>,
    concurrency: usize,
    timeout: Duration,
}

impl Default for FaultTest {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultTest {
    /// Creates a test with 1,000 runs.
    pub fn new() -> Self {
        Self { runs: 1_000, seed: None, concurrency: 8, timeout: Duration::from_secs(60) }
    }

    /// Sets the number of runs with faults. Default: 1,000.
    ///
    /// The runs have the seeds 1, 2 and so on. In a test of a durable agent, the first runs have one crash each. The
    /// run with the seed 1 crashes at the first place that allows a crash, and the next run crashes at the second
    /// place. Set at least as many runs as the [report](Report::boundaries) has such places.
    pub fn runs(mut self, runs: u64) -> Self {
        self.runs = runs;
        self
    }

    /// Runs the agent once with the faults of this seed, instead of once for each seed. Use it to repeat a run of a
    /// report.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
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
        let seeds = match self.seed {
            Some(seed) => seed..=seed,
            None => 1..=self.runs,
        };
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
