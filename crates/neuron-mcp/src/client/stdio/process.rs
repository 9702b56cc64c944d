//! The process of a server. On Unix, except OpenBSD and Redox, child processes of the server are killed together with
//! the server.

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

// OpenBSD and Redox cannot wait for a process without reaping it.
#[cfg(all(unix, not(any(target_os = "openbsd", target_os = "redox"))))]
mod group;
#[cfg(any(not(unix), target_os = "openbsd", target_os = "redox", test))]
#[cfg_attr(
    all(unix, not(any(target_os = "openbsd", target_os = "redox"))),
    expect(dead_code, reason = "compiled here too, so that it stays sound")
)]
mod single;

#[cfg(all(unix, not(any(target_os = "openbsd", target_os = "redox"))))]
pub(super) use self::group::Process;
#[cfg(any(not(unix), target_os = "openbsd", target_os = "redox"))]
pub(super) use self::single::Process;

/// The client's ends of the pipes to a child process.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// The state of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Life {
    /// The process runs.
    Running,
    /// The process has ended. Processes that it started may still be running.
    Ended(Ending),
    /// The process has ended and has been reaped. All other processes of its group have ended or were killed.
    Gone(Ending),
}

/// The way in which a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// The process exited, or was ended by another process. Contains the status, for example `exit status 3` or `signal
    /// 9`.
    ByItself(String),
    /// The process ended after this client sent it a signal.
    ByUs,
}

impl Life {
    pub(super) fn has_ended(&self) -> bool {
        !matches!(self, Self::Running)
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
    }

    /// Returns the exit status as text, such as `exit status 3`. Returns `None` if the process is running or was
    /// stopped by this client.
    pub(super) fn by_itself(&self) -> Option<&str> {
        match self {
            Self::Ended(Ending::ByItself(how)) | Self::Gone(Ending::ByItself(how)) => Some(how),
            Self::Running | Self::Ended(Ending::ByUs) | Self::Gone(Ending::ByUs) => None,
        }
    }
}
