//! Checks the limits of a process group periodically ([`Watch`]). Outside of cgroups, the kernel limits only single
//! processes or all processes of a user together.

use std::io;
use std::time::{Duration, Instant};

use neuron_types::SandboxLimit;
use rustix::process::{Pid, Signal};

use super::Limits;
use super::cgroup::Cgroup;
use super::cpu_times::CpuTimes;
use super::disk::Disks;
use super::members::Members;

/// Minimum interval between two checks of the limits.
const INTERVAL: Duration = Duration::from_millis(10);
/// Maximum interval between two checks, on a machine where a check takes long.
const LONGEST: Duration = Duration::from_millis(50);

/// Checks the limits of one process group periodically.
pub(super) struct Watch<'a> {
    cgroup: Option<&'a Cgroup>,
    disks: &'a Disks,
    limits: Limits,
    /// Time of the next check of the limits.
    next: Instant,
    cpu_times: CpuTimes,
    /// Id of the newest process on the machine at the last check. `None` before the first check, or if the id cannot be
    /// read.
    newest: Option<u64>,
    /// The program's first process. Only [`run`](super::run) may wait for its end, because it reads the exit status.
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

    /// Returns the time of the next check of the limits.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Checks all limits. Returns the first exceeded limit, or `None`.
    pub(super) fn look(&mut self, members: &mut Members) -> io::Result<Option<SandboxLimit>> {
        let start = Instant::now();
        let exceeded = self.exceeded(members);
        // On a machine with many processes a check takes long. Up to the maximum interval, checks take at most a
        // quarter of the time.
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
            // Running processes could multiply faster than they are counted, so they are stopped during the count.
            members.signal(Signal::STOP);
            let exceeded = self.count(members);
            if matches!(exceeded, Ok(None)) {
                members.signal(Signal::CONT);
            }
            return exceeded;
        }
        self.count(members)
    }

    /// Returns `true` if the group may have exceeded its process limit since the last check. This is the case if enough
    /// new processes were started on the machine, or if their number is unknown.
    fn is_forking(&mut self) -> bool {
        // The last field of `/proc/loadavg` is the id of the newest process.
        let newest = std::fs::read_to_string("/proc/loadavg").ok();
        let newest = newest.and_then(|text| text.split_whitespace().last()?.parse::<u64>().ok());
        let before = std::mem::replace(&mut self.newest, newest);
        match (before, newest) {
            // If the id is lower than before, the ids wrapped around.
            (Some(before), Some(newest)) => {
                newest.checked_sub(before).is_none_or(|new| new > self.limits.processes / 2)
            }
            (_, newest) => newest.is_none(),
        }
    }

    /// Lists the processes of the group and compares their number, memory and processor time with the limits.
    fn count(&mut self, members: &mut Members) -> io::Result<Option<SandboxLimit>> {
        let limits = self.limits;
        // The list can end with the first process above the limit.
        let most = usize::try_from(limits.processes).unwrap_or(usize::MAX).saturating_add(1);
        let processes = members.list(most)?;
        let (mut tasks, mut memory) = (0_u64, 0_u64);
        for process in &processes {
            if process.is_dead && process.pid != self.first && process.is_child() {
                // If this process is a subreaper or PID 1, it must wait for adopted orphans.
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
