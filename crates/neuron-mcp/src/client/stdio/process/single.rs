//! A process without a process group, for systems where this crate cannot kill a group safely. Child processes of the
//! server must exit by themselves when their pipes are closed.

use std::io;
use std::process::{Command, Stdio};

use tokio::process::Child;
use tokio::sync::{oneshot, watch};

use super::{Ending, Life, Pipes};

/// A child process. Dropping the value kills the process.
#[derive(Debug)]
pub(in super::super) struct Process {
    life: watch::Receiver<Life>,
    /// Held while the process may run. If the sender is dropped, the task that watches the process kills the process.
    keep: Option<oneshot::Sender<()>>,
}

impl Process {
    /// Starts a process. Requires a tokio runtime.
    pub(in super::super) fn spawn(command: Command) -> io::Result<(Self, Pipes)> {
        let mut command = tokio::process::Command::from(command);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the process has no pipes");
        let pipes = Pipes {
            stdin: child.stdin.take().ok_or_else(missing)?,
            stdout: child.stdout.take().ok_or_else(missing)?,
            stderr: child.stderr.take().ok_or_else(missing)?,
        };
        let (report, life) = watch::channel(Life::Running);
        let (keep, released) = oneshot::channel();
        tokio::spawn(watch_over(child, report, released));
        Ok((Self { life, keep: Some(keep) }, pipes))
    }

    /// Returns a receiver of the process's state.
    pub(in super::super) fn life(&self) -> watch::Receiver<Life> {
        self.life.clone()
    }

    /// Does nothing, because tokio offers no signal except killing.
    #[expect(clippy::unused_self, reason = "the same signature as in `group`")]
    pub(in super::super) fn terminate(&self) {}

    /// Kills the process immediately.
    pub(in super::super) fn kill(&mut self) {
        self.keep = None;
    }

    /// Kills the process immediately. A delay has no use, because processes that the server started can never be
    /// killed.
    pub(in super::super) fn kill_after(&mut self, _patience: std::time::Duration) {
        self.kill();
    }
}

/// Watches the process, and sends its final state to `report`. Kills the process when the sender of `released` is
/// dropped.
async fn watch_over(
    mut child: Child,
    report: watch::Sender<Life>,
    released: oneshot::Receiver<()>,
) {
    let ending = tokio::select! {
        biased;
        status = child.wait() => Ending::ByItself(status.map_or_else(|error| error.to_string(), |status| match status.code() {
            Some(code) => format!("exit status {code}"),
            None => status.to_string(),
        })),
        // The receiver completes when the sender is dropped, because no value is ever sent.
        _ = released => {
            if let Err(error) = child.kill().await {
                tracing::debug!(%error, "the process of a server cannot be killed");
            }
            Ending::ByUs
        }
    };
    // `wait` and `kill` also reap the process.
    report.send_replace(Life::Gone(ending));
}
