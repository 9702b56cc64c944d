//! Checks the figures that can be counted, such as allocations, and that each floor does the same work as neuron.

mod allocations;
mod conversations;
mod growth;
#[cfg(target_os = "linux")]
mod many_agents;
mod middleware;
mod parallel;
mod replays;
mod requests;
mod sessions;
mod streams;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test runs. Each test calls this function first, because the counters of allocations are for the
/// whole process, and `cargo test` runs the tests as threads of one process.
fn run_alone() -> MutexGuard<'static, ()> {
    static TESTS: Mutex<()> = Mutex::new(());
    TESTS.lock().unwrap_or_else(PoisonError::into_inner)
}
