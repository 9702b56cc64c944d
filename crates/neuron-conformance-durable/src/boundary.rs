//! Moments at which a child process can be killed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use neuron_conformance::child_process;

/// Number of the call of [`boundary`] at which this process waits to be killed. The first call has number 1. With 0 the
/// process never waits.
static STOP: OnceLock<u64> = OnceLock::new();

/// Number of calls of [`boundary`] in this process so far.
static PASSED: AtomicU64 = AtomicU64::new(0);

/// Prefix of the message that a child process sends when it passes a [`boundary`].
pub(crate) const PASSES: &str = "passes ";

/// Prefix of the message that a child process sends when it stops at a [`boundary`] and waits to be killed.
pub(crate) const STOPS: &str = "stops ";

/// Sets the number of the call of [`boundary`] at which this process stops and waits until it is killed.
pub(crate) fn stop_at(number: u64) {
    let _ = STOP.set(number);
}

/// Marks a point in the code at which [crash tests](crate::crash) can kill the process.
///
/// In a child process of a crash test, this function reports `name` to the test. It never returns if the test kills the
/// process at this point. In any other process it does nothing.
///
/// Scenarios call `boundary` before and after each model call, tool call and call of the durable context. Call it also
/// before and after the writes of your engine.
pub fn boundary(name: &str) {
    let Some(stop) = STOP.get() else { return };
    let number = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
    if number != *stop {
        return child_process::report(&format!("{PASSES}{name}"));
    }
    child_process::report(&format!("{STOPS}{name}"));
    loop {
        std::thread::park();
    }
}
