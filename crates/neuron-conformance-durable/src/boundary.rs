//! The moments at which a process is killed that is to be killed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use neuron_conformance::child_process;

/// At which boundary this process stands still, from one; zero stands for none.
static STOP: OnceLock<u64> = OnceLock::new();

/// How many boundaries this process came to.
static PASSED: AtomicU64 = AtomicU64::new(0);

/// What precedes the name of a boundary that was come to, and of the one to stand still at.
pub(crate) const PASSES: &str = "passes ";
pub(crate) const STOPS: &str = "stops ";

/// Makes this process one that is to be killed.
pub(crate) fn stop_at(number: u64) {
    let _ = STOP.set(number);
}

/// Tells the [driver of the crash matrix](crate::crash) that a run is at a moment at which its process is
/// to be killed. Does nothing in a process that is not its child.
///
/// The scenarios call it around each call of the model, of a tool and of the durable context. Call it
/// from your engine around what it writes, so that it is killed there too: the process then stands still
/// at this line until it is.
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
