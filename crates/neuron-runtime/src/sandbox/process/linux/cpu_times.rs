//! Processor time of the processes of a group.
//!
//! The kernel adds a process's time to that of the parent which waits for it. Where none waits, it is
//! known only while the process lives, in steps of some milliseconds: many that live shorter would cost
//! nothing. So the young ones are also sampled: one that is found running stands for the whole time since
//! the last look, because it is found in just the part of the looks that it runs. Over many of them that
//! is right.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::members::Process;

/// Number of looks in which a process is sampled. Later the kernel's own figure of its time is close enough.
const SAMPLES: u32 = 4;
/// For how long one sample stands at most, if this process could not look for long.
const LONGEST_SAMPLE: Duration = Duration::from_millis(100);

/// The processor times of all processes that a group ever had.
pub(super) struct CpuTimes {
    /// By number and start.
    living: HashMap<(Pid, u64), Seen>,
    /// Time of processes that have ended.
    gone: Duration,
    /// Of orphans that this process had to wait for, and of their children.
    adopted: Duration,
    last_look: Instant,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    cpu_time: Duration,
    sampled: Duration,
    looks: u32,
}

impl CpuTimes {
    pub(super) fn new() -> Self {
        let (gone, adopted) = (Duration::ZERO, Duration::ZERO);
        Self { living: HashMap::new(), gone, adopted, last_look: Instant::now() }
    }

    /// Notes an orphan that this process waited for.
    pub(super) fn adopt(&mut self, process: &Process) {
        self.adopted += process.cpu_time + process.cpu_time_of_children;
    }

    /// Notes the processes that there are now, and returns the time of all that there ever were.
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
        // Of children that were waited for, most are in both.
        Ok((self.gone + seen).max(with_children))
    }
}
