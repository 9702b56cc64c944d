//! Whether a process group exceeds its limits: the kernel's own are those of one process, or of all of
//! a user.

use std::io;
use std::time::{Duration, Instant};

use neuron_types::SandboxLimit;
use rustix::process::Pid;

use super::Limits;
use super::cpu_times::CpuTimes;
use super::members::Members;

/// The shortest time between two looks.
const INTERVAL: Duration = Duration::from_millis(10);
/// The longest, on a machine where looking takes long.
const LONGEST: Duration = Duration::from_millis(50);

/// Looks at a group from time to time.
pub(super) struct Watch {
    limits: Limits,
    /// When to look next.
    next: Instant,
    cpu_times: CpuTimes,
    /// The first process, which is waited for elsewhere.
    first: Pid,
}

impl Watch {
    pub(super) fn new(limits: Limits, first: Pid) -> Self {
        Self { limits, next: Instant::now(), cpu_times: CpuTimes::new(), first }
    }

    /// When to look next.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Returns a limit that the group exceeds.
    pub(super) fn look(&mut self, members: &mut Members) -> io::Result<Option<SandboxLimit>> {
        let start = Instant::now();
        let exceeded = self.exceeded(members);
        // On a machine with many processes, looking must not become the work.
        self.next = start + (start.elapsed() * 4).clamp(INTERVAL, LONGEST);
        exceeded
    }

    fn exceeded(&mut self, members: &mut Members) -> io::Result<Option<SandboxLimit>> {
        let limits = self.limits;
        // One more than there may be is too many already.
        let most = usize::try_from(limits.processes).unwrap_or(usize::MAX).saturating_add(1);
        let processes = members.list(most)?;
        let (mut tasks, mut memory) = (0_u64, 0_u64);
        for process in &processes {
            if process.is_dead && process.pid != self.first && process.is_child() {
                // Where this process adopts orphans, nobody else waits for them.
                process.wait();
                self.cpu_times.adopt(process);
                continue;
            }
            tasks = tasks.saturating_add(process.tasks);
            if tasks > limits.processes {
                return Ok(Some(SandboxLimit::Processes(limits.processes)));
            }
            memory = memory.saturating_add(process.memory()?);
        }
        if memory > limits.memory {
            return Ok(Some(SandboxLimit::Memory(limits.memory)));
        }
        if self.cpu_times.look(&processes)? > limits.cpu_time {
            return Ok(Some(SandboxLimit::CpuTime(limits.cpu_time)));
        }
        Ok(None)
    }
}
