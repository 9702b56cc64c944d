//! A process that leads its own process group. Signals go to the whole group, because programs such as `npx` start the
//! actual server as a child process.
//!
//! A thread waits for the end of the leader. It kills the group before it reaps the leader, because afterwards the
//! kernel may reuse the group's id. The thread needs no async runtime, so it also kills the group if the process is
//! dropped outside of a runtime.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;

use super::{Ending, Life, Pipes};

/// Stack size in bytes of the threads that watch and kill process groups. These threads need little stack, but may log
/// through the user's subscriber.
const STACK_BYTES: usize = 512 * 1024;
/// Interval between checks for the end of the process in [`Process::kill_after`].
const BREATH: Duration = Duration::from_millis(10);

/// A process and its group. Dropping the value kills all processes of the group.
#[derive(Debug)]
pub(in super::super) struct Process {
    group: Arc<Group>,
    life: watch::Receiver<Life>,
    /// Keeps the process group alive. The thread that watches the process holds the receiver of this channel.
    ///
    /// Once this sender is dropped and the process has ended, the thread kills the group and reaps the process.
    keep: Option<mpsc::Sender<()>>,
}

impl Process {
    /// Starts a process. Requires a tokio runtime for the pipes.
    pub(in super::super) fn spawn(mut command: Command) -> io::Result<(Self, Pipes)> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut leader = Leader(Some(command.spawn()?));
        let (id, pipes) = leader.pipes()?;
        let group = Arc::new(Group(Mutex::new(State { id: Some(id), sent: None })));
        let (report, life) = watch::channel(Life::Running);
        let (keep, released) = mpsc::channel();
        thread::Builder::new().name("mcp-server".to_owned()).stack_size(STACK_BYTES).spawn({
            let group = Arc::clone(&group);
            move || watch_over(leader, &group, &report, &released)
        })?;
        Ok((Self { group, life, keep: Some(keep) }, pipes))
    }

    /// Returns a receiver of the process's state.
    pub(in super::super) fn life(&self) -> watch::Receiver<Life> {
        self.life.clone()
    }

    /// Sends SIGTERM to all processes of the server's process group.
    pub(in super::super) fn terminate(&self) {
        self.group.signal(Signal::TERM);
    }

    /// Kills all processes of the group immediately. Does nothing after the first call.
    pub(in super::super) fn kill(&mut self) {
        if self.keep.take().is_some() {
            self.group.signal(Signal::KILL);
        }
    }

    /// Kills the group once the process has ended, or after `patience`. Does not wait, because a thread kills the
    /// group.
    pub(in super::super) fn kill_after(&mut self, patience: Duration) {
        if self.life.borrow().has_ended() {
            return self.kill();
        }
        let Some(keep) = self.keep.take() else { return };
        let (group, life) = (Arc::clone(&self.group), self.life.clone());
        let end = move || {
            let start = Instant::now();
            while start.elapsed() < patience && !life.borrow().has_ended() {
                thread::sleep(BREATH);
            }
            group.signal(Signal::KILL);
            drop(keep);
        };
        let thread =
            thread::Builder::new().name("mcp-server-end".to_owned()).stack_size(STACK_BYTES);
        if thread.spawn(end).is_err() {
            self.group.signal(Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The process group. Signals are sent only while the id of the group is valid.
#[derive(Debug)]
struct Group(Mutex<State>);

/// The id of a process group and the signal that was sent.
#[derive(Debug)]
struct State {
    /// Id of the process group. `None` once the kernel may reuse the id.
    id: Option<Pid>,
    /// The first signal that was sent to the group.
    sent: Option<Signal>,
}

impl Group {
    /// Sends a signal to all processes of the group, unless the id is no longer valid.
    fn signal(&self, signal: Signal) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.sent.get_or_insert(signal);
        if let Some(id) = state.id
            && let Err(error) = kill_process_group(id, signal)
        {
            // macOS also returns an error if the group has only zombies.
            tracing::debug!(%error, "the processes of a server cannot be signalled");
        }
    }

    fn sent(&self) -> Option<Signal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sent
    }

    /// Removes the stored id of the process group, so that no more signals are sent. Called before the kernel may reuse
    /// the id.
    fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).id = None;
    }

    fn id(&self) -> Option<Pid> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).id
    }
}

/// The first process of the group. `None` once the process has been reaped. Otherwise dropping the value kills and
/// reaps the process.
struct Leader(Option<Child>);

impl Leader {
    /// Takes the id and the pipes of the process. Returns an error if the process has no pipes.
    fn pipes(&mut self) -> io::Result<(Pid, Pipes)> {
        let missing = || io::Error::other("the process has no pipes");
        let child = self.0.as_mut().ok_or_else(missing)?;
        let pipes = Pipes {
            stdin: ChildStdin::from_std(child.stdin.take().ok_or_else(missing)?)?,
            stdout: ChildStdout::from_std(child.stdout.take().ok_or_else(missing)?)?,
            stderr: ChildStderr::from_std(child.stderr.take().ok_or_else(missing)?)?,
        };
        Ok((Pid::from_child(child), pipes))
    }

    /// Waits for the end of the process and reaps it.
    fn reap(mut self) {
        if let Some(mut child) = self.0.take() {
            // An error means that other code in this program has already reaped the process.
            let _ = child.wait();
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Watches the process, and sends its states to `report`. Once the process has ended and the sender of `released` is
/// dropped, kills the group and reaps the process. Blocks its thread until then.
fn watch_over(
    leader: Leader,
    group: &Group,
    report: &watch::Sender<Life>,
    released: &mpsc::Receiver<()>,
) {
    let status = group.id().and_then(wait_without_reaping);
    if status.is_none() {
        // Other code has reaped the process, for example a SIGCHLD handler for all children. The kernel may reuse the
        // id.
        group.forget();
    }
    let ending = ending(status, group.sent());
    report.send_replace(Life::Ended(ending.clone()));
    // `recv` waits until the sender is dropped, because no value is ever sent.
    let _ = released.recv();
    group.signal(Signal::KILL);
    group.forget();
    leader.reap();
    report.send_replace(Life::Gone(ending));
}

/// Describes the end of a process. `status` is `None` if the exit status is unknown. `sent` is the first signal that
/// this client sent to the process.
fn ending(status: Option<WaitIdStatus>, sent: Option<Signal>) -> Ending {
    let code = status.and_then(|status| status.exit_status());
    let signal = status.and_then(|status| status.terminating_signal());
    match (code, signal, sent) {
        // A process with an exit code exited by itself, before SIGKILL could end it.
        (Some(code), _, None | Some(Signal::KILL)) => {
            Ending::ByItself(format!("exit status {code}"))
        }
        (_, _, Some(_)) => Ending::ByUs,
        (None, Some(signal), None) => Ending::ByItself(format!("signal {signal}")),
        (None, None, None) => Ending::ByItself("an unknown status".to_owned()),
    }
}

/// Waits for the end of a process without reaping it. Returns `None` if the process does not exist.
fn wait_without_reaping(id: Pid) -> Option<WaitIdStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(id), options) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.ok()?,
        }
    }
}
