//! The library beside its floor, one after the other in turns, so that whatever else the machine does
//! meets both.

use std::time::{Duration, Instant};

/// What both sides took.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    /// The library's median.
    pub library: Duration,
    /// The floor's median.
    pub floor: Duration,
    /// The median of the ratios of each turn.
    pub ratio: f64,
}

impl Comparison {
    /// Runs both so many times, in turns.
    pub fn of<T>(rounds: usize, library: impl Fn() -> T, floor: impl Fn() -> T) -> Self {
        Self::of_times(rounds, || time(&library), || time(&floor))
    }

    /// As [`of`](Self::of), for work that tells by itself how long it took.
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

/// The item in the middle.
///
/// # Panics
///
/// If there is none.
pub fn median<T: Copy>(
    items: impl Iterator<Item = T>,
    order: fn(&T, &T) -> std::cmp::Ordering,
) -> T {
    let mut items: Vec<T> = items.collect();
    items.sort_unstable_by(order);
    items[items.len() / 2]
}

/// What `cargo bench -- …` asks for: how many rounds, and of which cases.
#[derive(Debug)]
pub struct Options {
    rounds: usize,
    filter: String,
    is_test: bool,
}

impl Options {
    /// Reads the program's arguments: `--once` for profilers, and a part of a case's name. Without
    /// cargo's `--bench` it is a test, and once is enough.
    #[must_use]
    pub fn from_args(rounds: usize) -> Self {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        let is_test = !has("--bench") && !has("--once");
        let is_once = has("--once") || is_test;
        let filter = args.into_iter().find(|arg| !arg.starts_with("--")).unwrap_or_default();
        Self { rounds: if is_once { 1 } else { rounds }, filter, is_test }
    }

    /// Whether it is asked for as a test: small numbers are enough.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.is_test
    }

    /// How many rounds to run.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Whether a case is asked for.
    #[must_use]
    pub fn includes(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }
}
