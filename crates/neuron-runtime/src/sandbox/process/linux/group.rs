//! The process group of a program, by which all of its processes can be killed.
//!
//! A small shell leads the group, outside the confinement. The program's processes join it and cannot
//! leave; they cannot signal the leader either. The number stays the group's until the leader has been
//! waited for, so that no other process can be hit. When this process dies, however, the leader reads
//! the end of a pipe, and kills the group.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use neuron_types::SandboxError;
use rustix::process::{Pid, Signal};

use super::members::Members;
use super::{requirements, setup_failed};

/// Maximum wait for the end of killed processes. A process that waits in the kernel for a dead file server does not
/// end.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two looks at the remaining processes.
const BREATH: Duration = Duration::from_millis(1);

/// Waits for the end of its input. It is deaf to what the kernel itself sends to a group: one with a
/// stopped process is hung up when its last parent outside dies, and those who ignore that would stay.
const SCRIPT: &str = "trap '' HUP INT QUIT TERM; echo; read -r line; kill -9 0";

/// A process group. Dropping it kills all that is in it.
pub(super) struct Group {
    leader: Child,
    id: Pid,
    members: Members,
    has_ended: bool,
}

impl Group {
    /// Starts a group with only its leader, and waits until that does its duty.
    pub(super) fn start() -> Result<Self, SandboxError> {
        requirements::check_ends_are_kept()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]).env_clear().current_dir("/");
        // The pipe is kept in the child, and closed with this process.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut leader = command.spawn().map_err(|error| setup_failed("/bin/sh", error))?;
        let id = Pid::from_child(&leader);
        let ready = leader.stdout.take().map(|mut stdout| stdout.read_exact(&mut [0; 1]));
        let group = Self { leader, id, members: Members::new(id), has_ended: false };
        match ready {
            Some(Err(error)) => Err(setup_failed("/bin/sh does not start", error)),
            _ => Ok(group),
        }
    }

    /// Returns the id of the group, which is the id of its leader.
    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// The processes of the group, without its leader.
    pub(super) fn members(&mut self) -> &mut Members {
        &mut self.members
    }

    /// Kills all processes and waits until there are none. The one that is kept is dead then too, and
    /// can still be asked how it ended.
    ///
    /// One signal reaches all: the kernel lets no process of the group fork past it.
    pub(super) fn end(&mut self, kept: Option<Pid>) -> Result<(), SandboxError> {
        if self.has_ended {
            return Ok(());
        }
        self.has_ended = true;
        let ended = self.kill_all(kept);
        // Last, because it gives the number free.
        let _ = self.leader.wait();
        ended
    }

    fn kill_all(&mut self, kept: Option<Pid>) -> Result<(), SandboxError> {
        let start = Instant::now();
        loop {
            match rustix::process::kill_process_group(self.id, Signal::KILL) {
                // Nobody is left, not even to be waited for.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(setup_failed("processes cannot be killed", error)),
            }
            let mut living = 0;
            for process in self.members.list(usize::MAX).map_err(unreadable)? {
                match process.is_dead {
                    false => living += 1,
                    true if kept == Some(process.pid) => {}
                    // Where this process adopts orphans, it must wait for them.
                    true => process.wait(),
                }
            }
            if living == 0 {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(SandboxError::SetupFailed(format!(
                    "{living} processes of group {} were killed and do not end",
                    self.id
                )));
            }
            std::thread::sleep(BREATH);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = self.end(None) {
            tracing::error!(%error, "processes of a sandbox may be left");
        }
    }
}

fn unreadable(error: io::Error) -> SandboxError {
    setup_failed("/proc cannot be read", error)
}
