//! The processes of a group, read from `/proc`.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

/// Lists the processes of a group but its leader, again and again.
pub(super) struct Members {
    group: Pid,
    /// Existing processes of other groups. They are not read again, because no process joins the group from
    /// outside.
    others: HashSet<Pid>,
    last_look: Instant,
}

/// For how long it is known whose a number is. Much later, if this process was stopped for instance, it
/// may have been given anew.
const MEMORY: Duration = Duration::from_secs(1);

impl Members {
    pub(super) fn new(group: Pid) -> Self {
        Self { group, others: HashSet::new(), last_look: Instant::now() }
    }

    /// Sends a signal to the processes of the group.
    pub(super) fn signal(&self, signal: Signal) {
        // It fails if none is left.
        let _ = rustix::process::kill_process_group(self.group, signal);
    }

    /// Lists at most `most` processes, including dead ones. A complete list would take longer and longer while
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
                // Some systems hide the processes of others.
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
                // What was not looked at stays as it was.
                self.others.extend(others);
                return Ok(found);
            }
        }
        self.others = others;
        Ok(found)
    }
}

/// A process as `/proc/[pid]/stat` shows it.
pub(super) struct Process {
    pub(super) pid: Pid,
    /// All its threads ended, and its parent has not waited for it.
    pub(super) is_dead: bool,
    /// Its first thread has a processor or waits for one.
    is_running: bool,
    /// Number of threads.
    pub(super) tasks: u64,
    /// Start time in ticks. An id may be used again, but not with the same start time.
    pub(super) start: u64,
    pub(super) cpu_time: Duration,
    /// Of children that it has waited for.
    pub(super) cpu_time_of_children: Duration,
    parent: i32,
    group: i64,
}

impl Process {
    /// Returns `true` if it is a child of this process.
    pub(super) fn is_child(&self) -> bool {
        self.parent == rustix::process::getpid().as_raw_nonzero().get()
    }

    /// Takes it away if it is a dead child of this process.
    pub(super) fn wait(&self) {
        let _ = rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG);
    }

    /// Returns the processor time of its threads in an interval, estimated from their current state.
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

    /// Returns its memory in bytes, without mapped files. 0 if it has ended.
    pub(super) fn memory(&self) -> io::Result<u64> {
        let folder = format!("/proc/{}", self.pid);
        if let Some(bytes) = memory_in(Path::new(&folder))? {
            return Ok(bytes);
        }
        if self.tasks == 1 {
            return Ok(0);
        }
        // The first thread has ended, and has none any more; the others show what there is.
        for thread in threads(&folder)? {
            if let Some(bytes) = memory_in(&thread)? {
                return Ok(bytes);
            }
        }
        Ok(0)
    }
}

/// The folders of a process's threads.
fn threads(folder: &str) -> io::Result<Vec<PathBuf>> {
    let threads = std::fs::read_dir(Path::new(folder).join("task")).and_then(|threads| {
        threads.map(|thread| thread.map(|thread| thread.path())).collect::<io::Result<Vec<_>>>()
    });
    match threads {
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        threads => threads,
    }
}

/// The part of an interval that a thread, which has a processor or waits for one, really has one.
fn busy(folder: &Path, interval: Duration) -> io::Result<Duration> {
    let times = read(folder.join("schedstat"))?.unwrap_or_default();
    // How long it ran, and how long it waited, in nanoseconds.
    let mut times = times.split_ascii_whitespace().map_while(|time| time.parse::<u128>().ok());
    let (ran, waited) = (times.next().unwrap_or_default(), times.next().unwrap_or_default());
    let busy = interval.as_nanos().saturating_mul(ran).checked_div(ran.saturating_add(waited));
    Ok(Duration::from_nanos(busy.and_then(|busy| u64::try_from(busy).ok()).unwrap_or_default()))
}

/// The memory of a process as one of its threads shows it, with the tables that say where pages are.
/// `None` if the thread has ended.
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

/// Reads a file of a process. `None` if the process has ended. Any other failure, such as a lack of file
/// descriptors, is an error, because the process would be overlooked.
fn read(path: impl AsRef<Path>) -> io::Result<Option<String>> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Reads a line of `/proc/[pid]/stat`. The second field is the program's name in parentheses, and may
/// hold anything.
fn parse(pid: Pid, stat: &str) -> Option<Process> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // As proc(5) numbers them; the first here is the third.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    let time = |ticks: u64| Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_second);
    let tasks = number(20)?.max(1);
    Some(Process {
        pid,
        // It is the first thread's state; the others may go on without that.
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
    fn a_line_is_read_whatever_the_programs_name() {
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
    fn only_a_process_that_has_ended_is_overlooked() {
        let ended = format!("/proc/{}/status", i32::MAX);
        assert!(read(ended).unwrap().is_none());
        assert!(read("/proc/self/status").unwrap().is_some());
        // Here it is no file, where it could be that no more files can be opened.
        assert!(read("/proc/self").is_err());
    }

    #[test]
    fn the_processes_of_a_group_are_seen_in_every_round() {
        // As one that is led by another process, which is left out.
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
