//! A process that leads its own process group. The whole group is signalled, because programs such as `npx` start the
//! actual server as a child process.
//!
//! A thread waits for the leader's end, and does not reap it until the group has been killed. Until then the kernel
//! does not reuse its id. A thread needs no runtime, so the group is killed even if the process is dropped outside of a
//! runtime.

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

/// Stack size of the threads, which make system calls, send a value, and may log through the user's subscriber.
const STACK_BYTES: usize = 512 * 1024;
/// Interval between two checks for the end of the process.
const BREATH: Duration = Duration::from_millis(10);

/// A process and its group. Dropping it kills both.
#[derive(Debug)]
pub(in super::super) struct Process {
    group: Arc<Group>,
    life: watch::Receiver<Life>,
    /// Dropping it lets the thread kill the group and reap the leader.
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

    /// Returns the state of the process.
    pub(in super::super) fn life(&self) -> watch::Receiver<Life> {
        self.life.clone()
    }

    /// Sends SIGTERM to all processes of the group.
    pub(in super::super) fn terminate(&self) {
        self.group.signal(Signal::TERM);
    }

    /// Kills all processes of the group and releases it.
    pub(in super::super) fn kill(&mut self) {
        if self.keep.take().is_some() {
            self.group.signal(Signal::KILL);
        }
    }

    /// Kills the group once the process has ended, or after `patience`. Does not wait.
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

/// The id of the group, as long as it is valid.
#[derive(Debug)]
struct Group(Mutex<State>);

#[derive(Debug)]
struct State {
    id: Option<Pid>,
    /// The first signal that was sent.
    sent: Option<Signal>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.sent.get_or_insert(signal);
        if let Some(id) = state.id
            && let Err(error) = kill_process_group(id, signal)
        {
            // macOS returns an error too if the group has only zombies.
            tracing::debug!(%error, "the processes of a server cannot be signalled");
        }
    }

    fn sent(&self) -> Option<Signal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).sent
    }

    /// Removes the id, because the kernel may reuse it from now on.
    fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).id = None;
    }

    fn id(&self) -> Option<Pid> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).id
    }
}

/// The first process of the group. It is killed and reaped if it is dropped before it is watched.
struct Leader(Option<Child>);

impl Leader {
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

    fn reap(mut self) {
        if let Some(mut child) = self.0.take() {
            // An error means that other code in this process has reaped it.
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

/// Runs the thread that watches the process.
fn watch_over(
    leader: Leader,
    group: &Group,
    report: &watch::Sender<Life>,
    released: &mpsc::Receiver<()>,
) {
    let status = group.id().and_then(wait_without_reaping);
    if status.is_none() {
        // Other code has reaped it, for example a SIGCHLD handler for all children. The id may be reused.
        group.forget();
    }
    let ending = ending(status, group.sent());
    report.send_replace(Life::Ended(ending.clone()));
    // Nothing is ever sent. An error means that the sender was dropped.
    let _ = released.recv();
    group.signal(Signal::KILL);
    group.forget();
    leader.reap();
    report.send_replace(Life::Gone(ending));
}

fn ending(status: Option<WaitIdStatus>, sent: Option<Signal>) -> Ending {
    let code = status.and_then(|status| status.exit_status());
    let signal = status.and_then(|status| status.terminating_signal());
    match (code, signal, sent) {
        // A process with an exit code had exited before SIGKILL could end it.
        (Some(code), _, None | Some(Signal::KILL)) => {
            Ending::ByItself(format!("exit status {code}"))
        }
        (_, _, Some(_)) => Ending::ByUs,
        (None, Some(signal), None) => Ending::ByItself(format!("signal {signal}")),
        (None, None, None) => Ending::ByItself("an unknown status".to_owned()),
    }
}

/// Waits for the end of the process without reaping it. `None` if the process does not exist.
fn wait_without_reaping(id: Pid) -> Option<WaitIdStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(id), options) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.ok()?,
        }
    }
}
