//! Measures the processor time of all processes of a group ([`CpuTimes`]).
//!
//! When a parent waits for an ended child, the kernel adds the child's time to the parent. If the parent does not wait,
//! the time is visible only while the child lives, in steps of some milliseconds. Many short processes would then seem
//! to use no time.
//!
//! Young processes are therefore also sampled. If a young process is running at a check, the whole time since the
//! previous check counts as its time. A process that runs for half of the time is running at half of the checks. So the
//! sum over many processes is right.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::members::Process;

/// Number of checks in which a new process is sampled. Afterwards the processor time that the kernel reports is precise
/// enough.
const SAMPLES: u32 = 4;
/// Maximum time that one sample can count, in case this process was stopped between two checks.
const LONGEST_SAMPLE: Duration = Duration::from_millis(100);

/// The processor times of all current and ended processes of a group.
pub(super) struct CpuTimes {
    /// Times of the living processes, by process id and start time.
    living: HashMap<(Pid, u64), Seen>,
    /// Total time of processes that have ended.
    gone: Duration,
    /// Total time of orphans and their children. An orphan is a process whose parent ended first. The kernel then made
    /// this process the parent, and this process waited for the orphan.
    adopted: Duration,
    /// Time of the last call of [`look`](Self::look).
    last_look: Instant,
}

/// The processor time of a living process.
#[derive(Clone, Copy, Default)]
struct Seen {
    cpu_time: Duration,
    /// Processor time, estimated by sampling.
    sampled: Duration,
    /// Number of calls of [`CpuTimes::look`] in which the process was sampled.
    looks: u32,
}

impl CpuTimes {
    pub(super) fn new() -> Self {
        let (gone, adopted) = (Duration::ZERO, Duration::ZERO);
        Self { living: HashMap::new(), gone, adopted, last_look: Instant::now() }
    }

    /// Adds the time of an orphan that this process waited for.
    pub(super) fn adopt(&mut self, process: &Process) {
        self.adopted += process.cpu_time + process.cpu_time_of_children;
    }

    /// Updates the times of the living processes. Returns the processor time of all processes of the group so far.
    pub(super) fn look(&mut self, processes: &[Process]) -> io::Result<Duration> {
        let now = Instant::now();
        let interval = now.saturating_duration_since(self.last_look).min(LONGEST_SAMPLE);
        self.last_look = now;
        let mut before = std::mem::take(&mut self.living);
        let (mut seen, mut with_children) = (Duration::ZERO, self.adopted);
        for process in processes {
            let key = (process.pid, process.start);
            let mut own = before.remove(&key).unwrap_or_default();
            if own.looks < SAMPLES {
                own.looks += 1;
                own.sampled += process.running(interval)?;
            }
            own.cpu_time = process.cpu_time;
            self.living.insert(key, own);
            seen += process.cpu_time;
            with_children += process.cpu_time + process.cpu_time_of_children;
        }
        self.gone += before.values().map(|own| own.cpu_time.max(own.sampled)).sum();
        // The time of an ended child is in `gone`, and also in its parent's `cpu_time_of_children` if the parent waited
        // for the child. The larger of both sums is used, so that no time counts twice.
        Ok((self.gone + seen).max(with_children))
    }
}
