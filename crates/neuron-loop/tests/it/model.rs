//! A model of the loop as a test.
//!
//! The module `generator` creates a case from a seed. A case has a script of the model's responses, a configuration and
//! an interruption. The module `reference` computes the expected outcome. It is small, and was written from the
//! documented rules, without the source of the loop. The module `check` runs the agent awaited, streamed and stepped.
//! It then interrupts the agent at a random point, and continues it.
//!
//! ```sh
//! cargo test -p neuron-loop model::                   # 10,000 cases
//! MODEL_SEED=17 cargo test -p neuron-loop model::     # one case, and what it is
//! MODEL_CASES=1000000 cargo test -p neuron-loop --release model::
//! MODEL_FIRST=10000 cargo test -p neuron-loop model:: # other cases
//! MODEL_COVERAGE=1 cargo test -p neuron-loop model:: -- --nocapture   # what they were
//! ```

mod case;
mod check;
mod coverage;
mod drive;
mod executions;
mod generator;
mod pairs;
mod parts;
mod random;
mod reference;
mod shared_budget;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use self::coverage::Coverage;

/// Default number of cases.
const CASES: u64 = 10_000;

/// Minimum number of cases in which each required situation must occur.
const LEAST: usize = 50;

#[test]
fn loop_matches_the_reference_under_any_interruption() {
    quiet_planned_panics();
    if let Some(seed) = number("MODEL_SEED") {
        println!("{:#?}", generator::case(seed));
        if let Err(fault) = try_one(&runtime(), seed) {
            panic!("{fault}");
        }
        return;
    }
    let (first, cases) =
        (number("MODEL_FIRST").unwrap_or(0), number("MODEL_CASES").unwrap_or(CASES));
    let coverage = try_all(first, cases);
    if number("MODEL_COVERAGE").is_some() {
        println!("{}", coverage.table());
    }
    let lacking = coverage.lacking(LEAST);
    // Smaller runs try deliberate faults. They cover too little, so their coverage is not checked.
    assert!(cases < CASES || lacking.is_empty(), "seen in fewer than {LEAST} cases: {lacking:#?}");
}

/// Checks cases on all processors, until one of them fails.
fn try_all(first: u64, cases: u64) -> Coverage {
    let next = AtomicU64::new(first);
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let failure = || failed.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        let (runtime, mut coverage) = (runtime(), Coverage::default());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + cases || failure().is_some() {
                return coverage;
            }
            match try_one(&runtime, seed) {
                Ok(seen) => coverage.add(seen),
                Err(fault) => {
                    failure().get_or_insert((seed, fault));
                }
            }
        }
    };
    let mut coverage = Coverage::default();
    std::thread::scope(|scope| {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            coverage.merge(worker.join().expect("faults are caught"));
        }
    });
    if let Some((seed, fault)) = failure().take() {
        panic!(
            "case {seed}: {fault}\n\nto see it again:\n    \
             MODEL_SEED={seed} cargo test -p neuron-loop model:: -- --nocapture\n"
        );
    }
    coverage
}

fn try_one(
    runtime: &tokio::runtime::Runtime,
    seed: u64,
) -> Result<std::collections::BTreeSet<String>, String> {
    let whole = || runtime.block_on(check::case(seed));
    catch_unwind(AssertUnwindSafe(whole)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

/// Creates a runtime with virtual time. The time advances only when all tasks wait for a timer.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime")
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// Installs a panic hook that does not print the panics that the test cases plan.
fn quiet_planned_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<String>().is_none_or(|text| text != world::PLANNED) {
            usual(panic);
        }
    }));
}
