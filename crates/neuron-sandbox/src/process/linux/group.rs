//! Starts the process group of a program, through which all of its processes can be killed ([`Group`]).
//!
//! The leader of the group is a small shell that is not confined. The program's processes join the group. They cannot
//! leave it, and cannot signal the leader. If this process dies, the leader reads the end of a pipe and kills the
//! group.
//!
//! The group's id stays reserved until this process waits for the leader. A signal to the id therefore cannot reach
//! another group.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use neuron_types::SandboxError;
use rustix::process::{Pid, Signal};

use super::members::Members;
use super::{requirements, setup_failed};

/// Maximum wait until killed processes have ended. A process that waits in the kernel for a dead file server never
/// ends.
const PATIENCE: Duration = Duration::from_secs(10);
/// Delay between two checks of whether the killed processes have ended.
const BREATH: Duration = Duration::from_millis(1);

/// Script of the group's leader, which waits for the end of its input and then kills the group. The leader ignores
/// signals that the kernel sends to a whole group. An example is `HUP`, which a group with a stopped process gets when
/// its last parent outside of the group dies. If `HUP` killed the leader, programs that ignore `HUP` would survive.
const SCRIPT: &str = "trap '' HUP INT QUIT TERM; echo; read -r line; kill -9 0";

/// A process group. Dropping it kills all of its processes.
pub(super) struct Group {
    /// The shell that leads the group.
    leader: Child,
    id: Pid,
    members: Members,
    /// Set once [`end`](Self::end) was called.
    has_ended: bool,
}

impl Group {
    /// Starts a group that contains only its leader, and waits until the leader is ready.
    pub(super) fn start() -> Result<Self, SandboxError> {
        requirements::check_ends_are_kept()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]).env_clear().current_dir("/");
        // The pipe is owned by `leader`, so the kernel closes it when this process dies.
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

    /// Returns the list of the group's processes, without its leader.
    pub(super) fn members(&mut self) -> &mut Members {
        &mut self.members
    }

    /// Kills all processes of the group and waits until they have ended. The process `kept` is not waited for, so that
    /// the caller can read its exit status.
    ///
    /// One signal reaches all processes, because a process cannot fork while a signal to its group is pending.
    pub(super) fn end(&mut self, kept: Option<Pid>) -> Result<(), SandboxError> {
        if self.has_ended {
            return Ok(());
        }
        self.has_ended = true;
        let ended = self.kill_all(kept);
        // The leader is waited for last, because this releases the group's id.
        let _ = self.leader.wait();
        ended
    }

    /// Sends `KILL` until no process is alive, for at most [`PATIENCE`]. The process `kept` is not waited for, so that
    /// its exit status stays readable.
    fn kill_all(&mut self, kept: Option<Pid>) -> Result<(), SandboxError> {
        let start = Instant::now();
        loop {
            match rustix::process::kill_process_group(self.id, Signal::KILL) {
                // `SRCH` means that no process of the group is left.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(setup_failed("processes cannot be killed", error)),
            }
            let mut living = 0;
            for process in self.members.list(usize::MAX).map_err(unreadable)? {
                match process.is_dead {
                    false => living += 1,
                    true if kept == Some(process.pid) => {}
                    // If this process is a subreaper or PID 1, it must wait for adopted orphans.
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
