//! The check of a process group's limits. The kernel's own limits are for one process or for all processes of a
//! user.

use std::io;
use std::time::{Duration, Instant};

use neuron_types::SandboxLimit;
use rustix::process::{Pid, Signal};

use super::Limits;
use super::cgroup::Cgroup;
use super::cpu_times::CpuTimes;
use super::disk::Disks;
use super::members::Members;

/// The shortest time between two looks.
const INTERVAL: Duration = Duration::from_millis(10);
/// The longest, on a machine where looking takes long.
const LONGEST: Duration = Duration::from_millis(50);

/// Looks at a group from time to time.
pub(super) struct Watch<'a> {
    cgroup: Option<&'a Cgroup>,
    disks: &'a Disks,
    limits: Limits,
    /// When to look next.
    next: Instant,
    cpu_times: CpuTimes,
    /// The number of the newest process at the last look.
    newest: Option<u64>,
    /// The first process, which is waited for elsewhere.
    first: Pid,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        limits: Limits,
        first: Pid,
        cgroup: Option<&'a Cgroup>,
        disks: &'a Disks,
    ) -> Self {
        Self {
            cgroup,
            disks,
            limits,
            next: Instant::now(),
            newest: None,
            cpu_times: CpuTimes::new(),
            first,
        }
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
        if let Some(limit) = self.cgroup.and_then(|cgroup| cgroup.exceeded(&limits)) {
            return Ok(Some(limit));
        }
        if let Some(reserve) = self.disks.short_of(limits.disk_reserve) {
            return Ok(Some(SandboxLimit::DiskReserve(reserve)));
        }
        if self.cgroup.is_none() && self.is_forking() {
            // While they run, they become more than can be counted.
            members.signal(Signal::STOP);
            let exceeded = self.count(members);
            if matches!(exceeded, Ok(None)) {
                members.signal(Signal::CONT);
            }
            return exceeded;
        }
        self.count(members)
    }

    /// Returns `true` if so many processes began on the machine since the last look that the group may have too many.
    fn is_forking(&mut self) -> bool {
        // The last field is the number of the newest process.
        let newest = std::fs::read_to_string("/proc/loadavg").ok();
        let newest = newest.and_then(|text| text.split_whitespace().last()?.parse::<u64>().ok());
        let before = std::mem::replace(&mut self.newest, newest);
        match (before, newest) {
            // Below the one before, the numbers began again.
            (Some(before), Some(newest)) => {
                newest.checked_sub(before).is_none_or(|new| new > self.limits.processes / 2)
            }
            (_, newest) => newest.is_none(),
        }
    }

    fn count(&mut self, members: &mut Members) -> io::Result<Option<SandboxLimit>> {
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
