//! Selects and applies the mechanism that limits the number of a program's processes ([`Counting`]).

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use neuron_types::SandboxError;
use rustix::process::{Resource, getpriority_process, setpriority_process};

use super::super::ProcessCounting;
use super::Limits;
use super::cgroup::{Cgroup, Hierarchy};
use super::launcher::Launcher;

/// Inode number of the initial user namespace, `PROC_USER_INIT_INO` in the kernel.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Number by which the nice value of the checking thread is lowered, for a higher priority.
const RAISE: i32 = 20;

/// The mechanism that limits the number of a program's processes. [`ProcessCounting`] describes the variants.
#[derive(Debug, Clone)]
pub(super) enum Counting {
    Cgroup(Hierarchy),
    UserLimit,
    Watched,
}

impl Counting {
    /// Returns the strictest mechanism for the process limit that this machine supports. `accepts_watching` permits a
    /// mechanism in which only this process enforces the limit, with periodic checks.
    ///
    /// # Errors
    ///
    /// [`SandboxError::SetupFailed`] if the kernel cannot limit the number of processes and `accepts_watching` is
    /// `false`.
    pub(super) fn find(accepts_watching: bool) -> Result<Self, SandboxError> {
        // A control group is preferred, because its limit is exact.
        if let Some(hierarchy) = Hierarchy::find() {
            return Ok(Self::Cgroup(hierarchy));
        }
        match (is_limited_user(), accepts_watching) {
            (true, _) => Ok(Self::UserLimit),
            (false, true) => Ok(Self::Watched),
            (false, false) => Err(SandboxError::SetupFailed(
                "the kernel cannot limit the number of processes here: no cgroup with the controller `pids` can be made, \
                 and this user is root, whom its own limit does not hold. Run as another user, delegate a cgroup, or \
                 accept a limit that is only watched (`watched_process_limit`)"
                    .to_owned(),
            )),
        }
    }

    pub(super) fn kind(&self) -> ProcessCounting {
        match self {
            Self::Cgroup(_) => ProcessCounting::Cgroup,
            Self::UserLimit => ProcessCounting::UserLimit,
            Self::Watched => ProcessCounting::Watched,
        }
    }

    /// Creates the control group of a program. Returns `None` if this mechanism does not use control groups.
    pub(super) fn cgroup(&self, limits: &Limits) -> Result<Option<Cgroup>, SandboxError> {
        match self {
            Self::Cgroup(hierarchy) => hierarchy.create(limits).map(Some),
            Self::UserLimit | Self::Watched => Ok(None),
        }
    }

    /// Applies the process limit to a program before it starts. At this time the launcher still waits for its input.
    /// The launcher is a shell that later becomes the program.
    pub(super) fn hold(
        &self,
        launcher: &Launcher,
        cgroup: Option<&Cgroup>,
        limits: &Limits,
    ) -> Result<(), SandboxError> {
        match self {
            Self::Cgroup(_) => cgroup.map_or(Ok(()), |cgroup| cgroup.add(launcher.pid)),
            Self::UserLimit => {
                // The limit also counts the user's other processes, whose number changes. The doubled limit leaves room
                // for them, and the exact number is checked periodically.
                let most = own_tasks().saturating_add(limits.processes.saturating_mul(2));
                launcher.set_limit(Resource::Nproc, most, most)
            }
            // The checks on this thread compete with all processes of the program. On Linux the priority is that of the
            // thread. The program does not inherit it, because the launcher already runs. Without the capability
            // `CAP_SYS_NICE` nothing changes.
            Self::Watched => {
                let nice = getpriority_process(None).unwrap_or_default();
                let _ = setpriority_process(None, nice.saturating_sub(RAISE));
                Ok(())
            }
        }
    }
}

/// Returns `true` if `RLIMIT_NPROC` limits this user. The kernel does not apply it to root of the initial user
/// namespace.
fn is_limited_user() -> bool {
    let user = rustix::process::getuid().as_raw();
    match fs::metadata("/proc/self/ns/user") {
        Ok(namespace) if namespace.ino() == FIRST_NAMESPACE => user != 0,
        Ok(_) => {
            let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
            outside(&map, user).is_some_and(|outside| outside != 0)
        }
        Err(_) => false,
    }
}

/// Converts a user id of this process's user namespace to the id outside of the namespace. Returns `None` if the id is
/// not mapped. `map` is the content of `/proc/self/uid_map`. Its lines contain the first id inside, the first id
/// outside, and the number of ids.
fn outside(map: &str, user: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map_while(|number| number.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let offset = user.checked_sub(inside)?;
        (offset < count).then(|| outside.checked_add(offset)).flatten()
    })
}

/// Returns the number of this user's processes and threads.
fn own_tasks() -> u64 {
    let user = rustix::process::getuid().as_raw();
    let tasks = |status: &str| {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        };
        (field("Uid:") == Some(u64::from(user))).then(|| field("Threads:").unwrap_or(1))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = processes
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()));
    numbered
        .filter_map(|entry| tasks(&fs::read_to_string(entry.path().join("status")).ok()?))
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_id_is_read_from_the_map() {
        let map = "         0       1000          1\n         1     100000      65536\n";
        for (inside, expected) in
            [(0, Some(1000)), (1, Some(100_000)), (65536, Some(165_535)), (65537, None)]
        {
            assert_eq!(outside(map, inside), expected, "{inside}");
        }
        assert_eq!(outside("0 0 4294967295", 7), Some(7));
        assert_eq!(outside("0 4294967295 4294967295", 7), None);
        for text in ["", "0", "0 0", "a b c"] {
            assert_eq!(outside(text, 0), None, "{text}");
        }
    }

    #[test]
    fn own_tasks_include_this_process() {
        assert!(own_tasks() >= 1);
    }
}
