//! Lists the processes of a process group from `/proc` ([`Members`]).

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

/// Lists the processes of a process group, without its leader.
pub(super) struct Members {
    group: Pid,
    /// Known processes of other groups. They are not read again, because no process can join the group from outside.
    others: HashSet<Pid>,
    /// Time of the last call of [`list`](Self::list).
    last_look: Instant,
}

/// Maximum time between two listings for which the set of known processes of other groups is kept. After a longer time,
/// the kernel may have reused a process id.
const MEMORY: Duration = Duration::from_secs(1);

impl Members {
    pub(super) fn new(group: Pid) -> Self {
        Self { group, others: HashSet::new(), last_look: Instant::now() }
    }

    /// Sends a signal to all processes of the group.
    pub(super) fn signal(&self, signal: Signal) {
        // Sending fails only if no process is left.
        let _ = rustix::process::kill_process_group(self.group, signal);
    }

    /// Lists at most `most` processes of the group, including dead ones. The maximum keeps the listing short while
    /// processes multiply.
    pub(super) fn list(&mut self, most: usize) -> io::Result<Vec<Process>> {
        if self.last_look.elapsed() > MEMORY {
            self.others.clear();
        }
        self.last_look = Instant::now();
        let mut found = Vec::new();
        let mut others = HashSet::with_capacity(self.others.len());
        for entry in std::fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.parse().ok());
            let Some(pid) = number.and_then(Pid::from_raw) else {
                continue;
            };
            if self.others.contains(&pid) {
                others.insert(pid);
                continue;
            }
            let stat = match read(format!("/proc/{pid}/stat")) {
                Ok(Some(stat)) => stat,
                Ok(None) => continue,
                // Some systems deny access to the processes of other users.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
                Err(error) => return Err(error),
            };
            let process = parse(pid, &stat);
            let process = process.ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat")))?;
            match process.group == i64::from(self.group.as_raw_nonzero().get()) {
                true if pid == self.group => {}
                true => found.push(process),
                false => {
                    others.insert(pid);
                }
            }
            if found.len() >= most {
                // Entries that this listing did not reach are kept.
                self.others.extend(others);
                return Ok(found);
            }
        }
        self.others = others;
        Ok(found)
    }
}

/// The state of a process from `/proc/[pid]/stat`.
pub(super) struct Process {
    pub(super) pid: Pid,
    /// Set if all threads ended and the parent has not waited for the process yet.
    pub(super) is_dead: bool,
    /// Set if the first thread runs or is ready to run.
    is_running: bool,
    /// Number of threads of the process.
    pub(super) tasks: u64,
    /// Start time in clock ticks since boot. A process id may be reused, but not with the same start time.
    pub(super) start: u64,
    /// Processor time of the process itself.
    pub(super) cpu_time: Duration,
    /// Processor time of the children that the process has waited for.
    pub(super) cpu_time_of_children: Duration,
    parent: i32,
    group: i64,
}

impl Process {
    /// Returns `true` if the process is a child of this process.
    pub(super) fn is_child(&self) -> bool {
        self.parent == rustix::process::getpid().as_raw_nonzero().get()
    }

    /// Waits for the process without blocking. Does nothing if it is not a dead child of this process.
    pub(super) fn wait(&self) {
        let _ = rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG);
    }

    /// Estimates the processor time of all threads in the last `interval`, from their current state.
    pub(super) fn running(&self, interval: Duration) -> io::Result<Duration> {
        let folder = format!("/proc/{}", self.pid);
        if self.tasks == 1 {
            return match self.is_running {
                true => busy(Path::new(&folder), interval),
                false => Ok(Duration::ZERO),
            };
        }
        let mut sum = Duration::ZERO;
        for thread in threads(&folder)? {
            let stat = read(thread.join("stat"))?;
            let state = stat.as_ref().and_then(|stat| stat.rsplit_once(')'));
            if state.is_some_and(|(_, state)| state.trim_start().starts_with('R')) {
                sum += busy(&thread, interval)?;
            }
        }
        Ok(sum)
    }

    /// Returns the memory of the process in bytes, without mapped files. Returns 0 if the process has ended.
    pub(super) fn memory(&self) -> io::Result<u64> {
        let folder = format!("/proc/{}", self.pid);
        if let Some(bytes) = memory_in(Path::new(&folder))? {
            return Ok(bytes);
        }
        if self.tasks == 1 {
            return Ok(0);
        }
        // The first thread has ended and shows no memory. Any other thread shows the memory of the process.
        for thread in threads(&folder)? {
            if let Some(bytes) = memory_in(&thread)? {
                return Ok(bytes);
            }
        }
        Ok(0)
    }
}

/// Returns the `/proc` folders of a process's threads. Returns an empty list if the process has ended.
fn threads(folder: &str) -> io::Result<Vec<PathBuf>> {
    let threads = std::fs::read_dir(Path::new(folder).join("task")).and_then(|threads| {
        threads.map(|thread| thread.map(|thread| thread.path())).collect::<io::Result<Vec<_>>>()
    });
    match threads {
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        threads => threads,
    }
}

/// Estimates how long a thread ran on a processor within `interval`. The estimate uses the thread's total times of
/// running and of waiting for a processor.
fn busy(folder: &Path, interval: Duration) -> io::Result<Duration> {
    let times = read(folder.join("schedstat"))?.unwrap_or_default();
    // The first two numbers are the times of running and of waiting, in nanoseconds.
    let mut times = times.split_ascii_whitespace().map_while(|time| time.parse::<u128>().ok());
    let (ran, waited) = (times.next().unwrap_or_default(), times.next().unwrap_or_default());
    let busy = interval.as_nanos().saturating_mul(ran).checked_div(ran.saturating_add(waited));
    Ok(Duration::from_nanos(busy.and_then(|busy| u64::try_from(busy).ok()).unwrap_or_default()))
}

/// Returns the memory of a process in bytes, including page tables and swap. `folder` is the folder of one of its
/// threads in `/proc`. Returns `None` if the thread has ended.
fn memory_in(folder: &Path) -> io::Result<Option<u64>> {
    let Some(status) = read(folder.join("status"))? else {
        return Ok(None);
    };
    let kilobytes = status.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        match name {
            "RssAnon" | "RssShmem" | "VmPTE" | "VmSwap" => {
                value.trim().strip_suffix(" kB")?.parse::<u64>().ok()
            }
            _ => None,
        }
    });
    let sum = kilobytes.reduce(u64::saturating_add);
    Ok(sum.map(|kilobytes| kilobytes.saturating_mul(1024)))
}

/// Reads a file of a process in `/proc`. Returns `None` if the process has ended. Any other failure is an error,
/// because the process would otherwise not be counted.
fn read(path: impl AsRef<Path>) -> io::Result<Option<String>> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns `true` if an error means that the process has ended.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Parses a line of `/proc/[pid]/stat`. Returns `None` if the line is incomplete. The program's name is in parentheses
/// and may contain any characters. The fields after it are found by the last parenthesis.
fn parse(pid: Pid, stat: &str) -> Option<Process> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // Field numbers follow proc(5). The first field after the name has the number 3.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    let time = |ticks: u64| Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_second);
    let tasks = number(20)?.max(1);
    Some(Process {
        pid,
        // The state is that of the first thread, which may end before the other threads.
        is_dead: matches!(field(3)?, "Z" | "X" | "x") && tasks == 1,
        is_running: field(3)? == "R",
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        tasks,
        start: number(22)?,
        cpu_time: time(number(14)?.saturating_add(number(15)?)),
        cpu_time_of_children: time(number(16)?.saturating_add(number(17)?)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid() -> Pid {
        rustix::process::getpid()
    }

    #[test]
    fn stat_line_is_parsed_with_any_program_name() {
        for name in ["cat", "a b", ") R 1 1", "))", ""] {
            let line = format!(
                "7 ({name}) Z 1 5 5 0 -1 4194304 1 2 3 4 150 50 300 100 20 0 3 0 777 1000 10 0"
            );
            let process = parse(pid(), &line).unwrap();
            assert!(!process.is_dead, "{name}: two threads are left");
            assert!(parse(pid(), &line.replace(" 0 3 0 ", " 0 1 0 ")).unwrap().is_dead, "{name}");
            assert_eq!((process.tasks, process.start), (3, 777), "{name}");
            let second =
                Duration::from_millis(1000 * 100 / rustix::param::clock_ticks_per_second());
            assert_eq!(process.cpu_time, second * 2, "{name}");
            assert_eq!(process.cpu_time_of_children, second * 4, "{name}");
            for cut in 0..line.find(" 777").unwrap() {
                assert!(parse(pid(), &line[..cut]).is_none_or(|cut| cut.start != 777));
            }
        }
    }

    #[test]
    fn read_returns_none_only_for_an_ended_process() {
        let ended = format!("/proc/{}/status", i32::MAX);
        assert!(read(ended).unwrap().is_none());
        assert!(read("/proc/self/status").unwrap().is_some());
        // Reading a directory fails, like any failure that is not the end of the process.
        assert!(read("/proc/self").is_err());
    }

    #[test]
    fn every_listing_contains_this_process() {
        // The leader of the group is left out.
        let mut members = Members::new(rustix::process::getpgrp());
        for round in 0..3 {
            let found = members.list(usize::MAX).unwrap();
            let is_leader = members.group == pid();
            let this = found.iter().find(|process| process.pid == pid());
            assert_eq!(this.is_none(), is_leader, "round {round}");
            if let Some(process) = this {
                assert!(!process.is_dead && process.tasks >= 1);
                assert!(process.memory().unwrap() > 0);
            }
        }
        assert!(!members.others.contains(&pid()));
    }
}
