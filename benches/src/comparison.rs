//! Measures the library and its floor in turns, so that other load on the machine affects both.

use std::time::{Duration, Instant};

/// The times of both sides.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    /// The library's median.
    pub library: Duration,
    /// The floor's median.
    pub floor: Duration,
    /// The median of the ratios of all rounds.
    pub ratio: f64,
}

impl Comparison {
    /// Runs both sides this many times, in turns.
    pub fn of<T>(rounds: usize, library: impl Fn() -> T, floor: impl Fn() -> T) -> Self {
        Self::of_times(rounds, || time(&library), || time(&floor))
    }

    /// Like [`of`](Self::of), for work that returns its own duration.
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

fn time<T>(work: impl Fn() -> T) -> Duration {
    let start = Instant::now();
    let done = std::hint::black_box(work());
    let time = start.elapsed();
    drop(done);
    time
}

/// Returns the median item.
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

/// The options of `cargo bench -- …`, which are the number of rounds and a filter for the cases.
#[derive(Debug)]
pub struct Options {
    rounds: usize,
    filter: String,
    is_test: bool,
}

impl Options {
    /// Parses the program's arguments. `--once` is for profilers, and any other text selects the cases with this text
    /// in their names. Without cargo's `--bench` the program is a test and runs one round.
    #[must_use]
    pub fn from_args(rounds: usize) -> Self {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        let is_test = !has("--bench") && !has("--once");
        let is_once = has("--once") || is_test;
        let filter = args.into_iter().find(|arg| !arg.starts_with("--")).unwrap_or_default();
        Self { rounds: if is_once { 1 } else { rounds }, filter, is_test }
    }

    /// Returns `true` if the program runs as a test, for which small numbers are sufficient.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.is_test
    }

    /// Returns the number of rounds to run.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Returns `true` if the options select this case.
    #[must_use]
    pub fn includes(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }
}
