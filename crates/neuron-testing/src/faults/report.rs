//! The result of a test with faults.

use std::collections::BTreeMap;
use std::fmt;

use super::promise::BrokenPromise;

/// The result of a [`FaultTest`](super::FaultTest).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Number of runs with faults.
    pub runs: usize,
    /// Number of injected faults, including crashes.
    pub faults: usize,
    /// Number of injected crashes.
    pub crashes: usize,
    /// Number of places at which the run without faults could crash. It is 0 without a durable context.
    pub boundaries: usize,
    /// The runs that broke a promise, in the order of their seeds. The run without faults has the seed 0.
    pub broken: Vec<BrokenRun>,
}

/// A run that broke promises.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokenRun {
    /// The seed of the run. To repeat the run, pass it to [`FaultTest::seed`](super::FaultTest::seed) and set one run.
    pub seed: u64,
    /// The faults of the run, in order.
    pub faults: Vec<String>,
    /// The promises that the run broke.
    pub broken: Vec<BrokenPromise>,
}

impl Report {
    /// Asserts that no run has a [`BrokenPromise`], such as a repeated effect or a failed run.
    ///
    /// # Panics
    ///
    /// Panics with the whole report if a run broke a promise.
    #[track_caller]
    pub fn assert_kept(&self) {
        assert!(self.broken.is_empty(), "{self}");
    }
}

/// Formats the numbers of runs, faults and crashes. Then lists each kind of broken promise, with the first run that
/// broke it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, faults, crashes, boundaries, broken } = self;
        write!(
            f,
            "{} of {runs} runs broke a promise ({faults} faults, {crashes} of them crashes, {boundaries} boundaries)",
            broken.len(),
        )?;
        let mut kinds: BTreeMap<&str, Vec<(&BrokenRun, &BrokenPromise)>> = BTreeMap::new();
        for run in broken {
            for promise in &run.broken {
                let found = kinds.entry(promise.kind()).or_default();
                if found.last().is_none_or(|(last, _)| last.seed != run.seed) {
                    found.push((run, promise));
                }
            }
        }
        for (kind, found) in kinds {
            let Some((first, promise)) = found.first() else { continue };
            write!(f, "\n- {kind} in {} runs: {promise}", found.len())?;
            match first.seed {
                0 => write!(f, "\n  in the run without faults")?,
                seed => write!(
                    f,
                    "\n  repeat it with `.seed({seed}).runs(1)`; faults: {}",
                    first.faults.join(", ")
                )?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(seed: u64, error: &str) -> BrokenRun {
        let broken = vec![
            BrokenPromise::RunFailed { error: error.to_owned() },
            BrokenPromise::RunFailed { error: "another".to_owned() },
        ];
        BrokenRun { seed, faults: vec!["Overload at a model call".to_owned()], broken }
    }

    #[test]
    fn text_has_the_first_run_of_each_kind() {
        let report = Report {
            runs: 10,
            faults: 4,
            crashes: 1,
            boundaries: 3,
            broken: vec![failed(4, "overloaded"), failed(6, "timeout")],
        };
        assert_eq!(
            report.to_string(),
            "2 of 10 runs broke a promise (4 faults, 1 of them crashes, 3 boundaries)\n\
             - run_failed in 2 runs: the run failed: overloaded\n  \
             repeat it with `.seed(4).runs(1)`; faults: Overload at a model call"
        );
    }

    #[test]
    #[should_panic(expected = "in the run without faults")]
    fn assertion_fails_for_a_broken_run_without_faults() {
        Report { runs: 1, broken: vec![failed(0, "it")], ..Report::default() }.assert_kept();
    }
}
