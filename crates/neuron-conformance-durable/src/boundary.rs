//! Moments at which a child process can be killed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use neuron_conformance::child_process;

/// Number of the boundary at which this process stops. The first is 1, and 0 is none.
static STOP: OnceLock<u64> = OnceLock::new();

/// Number of boundaries that this process has reached.
static PASSED: AtomicU64 = AtomicU64::new(0);

/// Prefix of the report of a passed boundary.
pub(crate) const PASSES: &str = "passes ";

/// Prefix of the report of the boundary at which the process stops.
pub(crate) const STOPS: &str = "stops ";

/// Makes this process stop at a boundary.
pub(crate) fn stop_at(number: u64) {
    let _ = STOP.set(number);
}

/// Reports a moment at which [crash tests](crate::crash) can kill the process. Does nothing outside of a child of
/// such a test.
///
/// The scenarios call it around each call of the model, of a tool and of the durable context. Call it from your
/// engine around its writes, so that the process is killed there too. The process then stops at this call.
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
