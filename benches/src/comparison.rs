//! Measures neuron's code and its floor alternately, so that other load on the machine affects both. A floor is minimal
//! hand-written code for the same work.

use std::time::{Duration, Instant};

/// The median times of neuron's code and its floor, which is the same work in minimal hand-written code.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    /// Median time of neuron's code.
    pub library: Duration,
    /// Median time of the floor, the same work in hand-written code.
    pub floor: Duration,
    /// Median of the ratios of all rounds. A ratio is the time of neuron's code divided by the time of the floor, the
    /// minimal hand-written code.
    pub ratio: f64,
}

impl Comparison {
    /// Runs neuron's code `library` and the hand-written code `floor` alternately, `rounds` times each, and measures
    /// their times.
    pub fn of<T>(rounds: usize, library: impl Fn() -> T, floor: impl Fn() -> T) -> Self {
        Self::of_times(rounds, || time(&library), || time(&floor))
    }

    /// Runs `library` and `floor` alternately like [`of`](Self::of), but uses the durations that they return.
    pub fn of_times(
        rounds: usize,
        library: impl Fn() -> Duration,
        floor: impl Fn() -> Duration,
    ) -> Self {
        let rounds: Vec<_> = (0..rounds.max(1)).map(|_| (library(), floor())).collect();
        let ratios = rounds.iter().map(|(library, floor)| {
            library.as_secs_f64() / floor.as_secs_f64().max(f64::MIN_POSITIVE)
        });
        Self {
            library: median(rounds.iter().map(|(library, _)| *library), Duration::cmp),
            floor: median(rounds.iter().map(|(_, floor)| *floor), Duration::cmp),
            ratio: median(ratios, f64::total_cmp),
        }
    }
}

/// Returns the duration of `work`. Dropping its output is not measured.
fn time<T>(work: impl Fn() -> T) -> Duration {
    let start = Instant::now();
    let done = std::hint::black_box(work());
    let time = start.elapsed();
    drop(done);
    time
}

/// Returns the median of the items. `order` compares two items.
///
/// # Panics
///
/// Panics if there are no items.
pub fn median<T: Copy>(
    items: impl Iterator<Item = T>,
    order: fn(&T, &T) -> std::cmp::Ordering,
) -> T {
    let mut items: Vec<T> = items.collect();
    items.sort_unstable_by(order);
    items[items.len() / 2]
}

/// The command line options of a benchmark, after `cargo bench --`. They set the number of rounds and select the cases.
#[derive(Debug)]
pub struct Options {
    rounds: usize,
    case: String,
    is_test: bool,
}

impl Options {
    /// Parses the program's arguments. `rounds` is the default number of rounds.
    ///
    /// - `--once` runs one round, for profilers.
    /// - The case of the [`selection`] selects the cases whose names contain it.
    /// - `cargo bench` passes `--bench`. Without `--bench` and `--once`, the program is a test and runs one round.
    #[must_use]
    pub fn from_args(rounds: usize) -> Self {
        let has = |flag: &str| std::env::args().any(|arg| arg == flag);
        let is_test = !has("--bench") && !has("--once");
        let is_once = has("--once") || is_test;
        Self { rounds: if is_once { 1 } else { rounds }, case: selection().1, is_test }
    }

    /// Returns `true` if the program runs as a test. The benchmark then uses small sizes.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.is_test
    }

    /// Returns the number of rounds to run.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Returns `true` if the options select the case `name`.
    #[must_use]
    pub fn includes(&self, name: &str) -> bool {
        name.contains(&self.case)
    }
}

/// Returns the parts of the benchmark's name and of the case's name in the program's first argument that is no option,
/// which is `BENCHMARK` or `BENCHMARK/CASE`. A missing part is empty.
#[must_use]
pub fn selection() -> (String, String) {
    let first = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let (benchmark, case) = first.split_once('/').unwrap_or((&first, ""));
    (benchmark.to_owned(), case.to_owned())
}
