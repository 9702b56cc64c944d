//! Runs a program from its start to the end of all its processes ([`Ready`]).

use std::ffi::OsString;
use std::io::{self, PipeReader, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use landlock::ABI;
use neuron_types::{
    CommandOutput, CommandStatus, SandboxError, SandboxLimit, ToolCommand, ToolContext, ToolError,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use tokio::sync::oneshot;

use super::super::{Confinement, ProcessCounting};
use super::confine::{self, Rules};
use super::counting::Counting;
use super::disk::Disks;
use super::group::Group;
use super::launcher::{self, Launcher};
use super::output::Captured;
use super::program::Program;
use super::watch::Watch;
use super::{Limits, Settings, requirements, setup_failed};

/// Number of bytes of each output that are read before the limits are checked again. A program may write without end.
const AT_ONCE: usize = 256 * 1024;

/// A sandbox with opened paths, ready to run programs. Clones share it.
#[derive(Clone)]
pub(in super::super) struct Ready(Arc<Inner>);

struct Inner {
    settings: Settings,
    rules: Rules,
    /// Paths from which programs may run.
    executable: Vec<PathBuf>,
    disks: Disks,
    counting: Counting,
}

impl Ready {
    pub(in super::super) fn new(settings: Settings) -> Result<Self, SandboxError> {
        Self::with_landlock(settings, confine::FULL)
    }

    /// Creates a sandbox that uses Landlock up to version `newest`. Tests pass older versions.
    fn with_landlock(mut settings: Settings, newest: ABI) -> Result<Self, SandboxError> {
        requirements::check_processes_are_seen()?;
        requirements::check_ends_are_kept()?;
        let directory = settings.directory.canonicalize();
        settings.directory =
            directory.map_err(|error| setup_failed(settings.directory.display(), error))?;
        let rules = Rules::new(&settings, newest)?;
        launcher::try_confinement(rules.for_group(rustix::process::getpid())?)?;
        let executable = confine::executable_paths(&settings);
        let disks = Disks::new(&settings)?;
        let counting = Counting::find(settings.accepts_watching)?;
        let inner = Inner { settings, rules, executable, disks, counting };
        if matches!(inner.counting, Counting::UserLimit) {
            try_to_fork(&inner)?;
        }
        Ok(Self(Arc::new(inner)))
    }

    pub(in super::super) fn is_strict(&self) -> bool {
        self.0.settings.is_strict
    }

    pub(in super::super) fn confinement(&self) -> Confinement {
        self.0.rules.confinement
    }

    pub(in super::super) fn process_counting(&self) -> ProcessCounting {
        self.0.counting.kind()
    }

    /// Runs a program on a new thread. Dropping the future makes the thread kill all processes of the program.
    pub(in super::super) async fn run(
        &self,
        command: ToolCommand,
        ctx: &ToolContext,
    ) -> Result<CommandOutput, SandboxError> {
        if ctx.cancellation_token.is_cancelled() {
            return Err(ToolError::Cancelled.into());
        }
        let Inner { settings, executable, .. } = &*self.0;
        let program = Program::find(command, settings, executable, ctx)?;
        // Dropping `held`, also with the future, makes `watched` readable and cancels the run.
        let (watched, held) = io::pipe().map_err(|error| setup_failed("a pipe", error))?;
        let (sender, mut receiver) = oneshot::channel();
        let inner = self.0.clone();
        let work = move || {
            // Sending fails if the future was dropped.
            let _ = sender.send(run(&inner, inner.settings.limits, program, &watched));
        };
        thread::Builder::new()
            .name("sandbox".to_owned())
            .spawn(work)
            .map_err(|error| setup_failed("a thread", error))?;
        let lost = |_| SandboxError::SetupFailed("the thread of the sandbox panicked".to_owned());
        match ctx.cancellation_token.run_until_cancelled(&mut receiver).await {
            Some(result) => result.map_err(lost)?,
            None => {
                drop(held);
                match receiver.await.map_err(lost)? {
                    // The program may have ended just before the cancellation. A setup error means that processes may
                    // still run, so it is returned.
                    Err(error @ SandboxError::SetupFailed(_)) => Err(error),
                    _ => Err(ToolError::Cancelled.into()),
                }
            }
        }
    }
}

/// Runs a program until it ends, exceeds a limit, or is cancelled. The descriptor `cancelled` becomes readable when the
/// call is cancelled or dropped.
fn run(
    inner: &Inner,
    limits: Limits,
    mut program: Program,
    cancelled: &PipeReader,
) -> Result<CommandOutput, SandboxError> {
    let deadline = Instant::now().checked_add(limits.time);
    // The control group is created before all other values, so it is dropped after them, when it contains no process.
    let cgroup = inner.counting.cgroup(&limits)?;
    let mut group = Group::start()?;
    let mut launcher = Launcher::start(inner.rules.for_group(group.id())?, group.id(), &program)?;
    launcher.close_files()?;
    launcher.set_limits(&limits)?;
    inner.counting.hold(&launcher, cgroup.as_ref(), &limits)?;

    let mut pipes = Pipes::new(&mut launcher, launcher::input(&mut program), limits.output)?;
    let mut watch = Watch::new(limits, launcher.pid, cgroup.as_ref(), &inner.disks);
    let end = pipes.follow(launcher.pid, deadline, &limits, &mut watch, &mut group, cancelled);
    // All processes are killed, whatever the reason for the end was.
    group.end(Some(launcher.pid))?;
    let status = launcher.child.wait().map_err(|error| SandboxError::Other(Box::new(error)))?;
    // All writers have ended, so the pipes contain only the remaining output.
    pipes.read(usize::MAX);
    let output = pipes.into_output(status);
    let refused = cgroup.as_ref().and_then(|cgroup| cgroup.exceeded(&limits));
    let limit = match (end?, output.status) {
        (End::Cancelled, _) => return Err(ToolError::Cancelled.into()),
        (End::Exceeded(limit), _) => limit,
        (End::Exited, CommandStatus::Signaled(launcher::FILE_SIZE_SIGNAL)) => {
            SandboxLimit::FileSize(limits.file_size)
        }
        (End::Exited, CommandStatus::Signaled(launcher::CPU_TIME_SIGNAL)) => {
            SandboxLimit::CpuTime(limits.cpu_time)
        }
        (End::Exited, _) => match refused {
            Some(limit) => limit,
            None => return Ok(output),
        },
    };
    Err(SandboxError::LimitExceeded { limit, output: Box::new(output) })
}

/// Runs a small test program that forks. Returns an error if the kernel rejects the fork.
///
/// The kernel's limit is computed from the number of the user's processes in `/proc`. In a container, `/proc` may hide
/// some of these processes. The kernel counts them too, and would then reject every fork.
fn try_to_fork(inner: &Inner) -> Result<(), SandboxError> {
    let program = Program {
        path: "/bin/sh".into(),
        args: ["-c", "(exit 0); exit 7"].map(OsString::from).to_vec(),
        env: IndexMap::new(),
        directory: "/".into(),
        stdin: Vec::new(),
    };
    let limits = Limits { time: Duration::from_secs(2), ..Limits::default() };
    let (watched, _held) = io::pipe().map_err(|error| setup_failed("a pipe", error))?;
    match run(inner, limits, program, &watched) {
        Ok(output) if output.status == CommandStatus::Exited(7) => Ok(()),
        Err(error @ SandboxError::SetupFailed(_)) => Err(error),
        _ => Err(SandboxError::SetupFailed(
            "this user has more processes than /proc shows, perhaps in other containers, so that the kernel cannot limit \
             those of programs: run as a user of its own, or delegate a cgroup"
                .to_owned(),
        )),
    }
}

/// Reason to end a program and kill its remaining processes.
enum End {
    Exited,
    Exceeded(SandboxLimit),
    Cancelled,
}

/// Standard input, standard output and standard error of a program. A closed pipe is `None`.
struct Pipes {
    stdin: Option<ChildStdin>,
    /// The input of the program, with the position up to which it was written.
    input: io::Cursor<Vec<u8>>,
    stdout: Option<ChildStdout>,
    stdout_bytes: Captured,
    stderr: Option<ChildStderr>,
    stderr_bytes: Captured,
}

impl Pipes {
    fn new(launcher: &mut Launcher, input: Vec<u8>, limit: usize) -> Result<Self, SandboxError> {
        let pipes = Self {
            stdin: launcher.child.stdin.take(),
            input: io::Cursor::new(input),
            stdout: launcher.child.stdout.take(),
            stdout_bytes: Captured::new(limit),
            stderr: launcher.child.stderr.take(),
            stderr_bytes: Captured::new(limit),
        };
        let set = |fd: Option<std::os::fd::BorrowedFd<'_>>| match fd {
            Some(fd) => rustix::io::ioctl_fionbio(fd, true),
            None => Ok(()),
        };
        set(pipes.stdin.as_ref().map(AsFd::as_fd))
            .and_then(|()| set(pipes.stdout.as_ref().map(AsFd::as_fd)))
            .and_then(|()| set(pipes.stderr.as_ref().map(AsFd::as_fd)))
            .map_err(|error| setup_failed("a pipe", error))?;
        Ok(pipes)
    }

    /// Transfers input and output until the first process exits, a limit is exceeded, or the run is cancelled.
    fn follow(
        &mut self,
        pid: Pid,
        deadline: Option<Instant>,
        limits: &Limits,
        watch: &mut Watch<'_>,
        group: &mut Group,
        cancelled: &PipeReader,
    ) -> Result<End, SandboxError> {
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| setup_failed("the program", error))?;
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(End::Exceeded(SandboxLimit::Time(limits.time)));
            }
            if now >= watch.next() {
                let exceeded =
                    watch.look(group.members()).map_err(|error| setup_failed("/proc", error))?;
                if let Some(limit) = exceeded {
                    return Ok(End::Exceeded(limit));
                }
            }
            let until = deadline.map_or(watch.next(), |deadline| deadline.min(watch.next()));
            let ready = [process.as_fd(), cancelled.as_fd()];
            let [has_exited, is_cancelled] = self.wait(ready, until)?;
            self.write();
            self.read(AT_ONCE);
            if is_cancelled {
                return Ok(End::Cancelled);
            }
            if has_exited {
                return Ok(End::Exited);
            }
        }
    }

    /// Waits until a pipe or a descriptor in `others` is ready, or until the time `until`. The result contains `true`
    /// for each descriptor in `others` that is ready.
    fn wait(
        &self,
        others: [std::os::fd::BorrowedFd<'_>; 2],
        until: Instant,
    ) -> Result<[bool; 2], SandboxError> {
        let mut fds = others.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).to_vec();
        let outputs =
            [self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd)];
        let outputs = outputs.into_iter().flatten();
        fds.extend(outputs.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let input = self.stdin.as_ref().map(AsFd::as_fd);
        fds.extend(input.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
        let timeout = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(timeout).ok();
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(setup_failed("the program's output", error)),
        }
        let is_ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok([is_ready(0), is_ready(1)])
    }

    /// Writes input without blocking. Closes the standard input after the last byte.
    fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else {
            return;
        };
        loop {
            let position = usize::try_from(self.input.position()).unwrap_or(usize::MAX);
            let rest = self.input.get_ref().get(position..).unwrap_or_default();
            if rest.is_empty() {
                self.stdin = None;
                return;
            }
            match stdin.write(rest) {
                Ok(count) => self.input.set_position((position + count) as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A program may close its standard input, which is not an error.
                Err(_) => {
                    self.stdin = None;
                    return;
                }
            }
        }
    }

    /// Reads the available bytes without blocking, up to about `most` bytes from each output. A read error counts as
    /// the end of the output.
    fn read(&mut self, most: usize) {
        if let Some(stdout) = &mut self.stdout
            && !self.stdout_bytes.read(stdout, most).unwrap_or(false)
        {
            self.stdout = None;
        }
        if let Some(stderr) = &mut self.stderr
            && !self.stderr_bytes.read(stderr, most).unwrap_or(false)
        {
            self.stderr = None;
        }
    }

    fn into_output(self, status: ExitStatus) -> CommandOutput {
        let mut output = CommandOutput::default();
        output.status = match (status.code(), status.signal()) {
            (Some(code), _) => CommandStatus::Exited(code),
            (None, signal) => CommandStatus::Signaled(signal.unwrap_or_default()),
        };
        (output.stdout, output.stdout_dropped) =
            (self.stdout_bytes.bytes, self.stdout_bytes.dropped);
        (output.stderr, output.stderr_dropped) =
            (self.stderr_bytes.bytes, self.stderr_bytes.dropped);
        output
    }
}

#[cfg(test)]
mod tests;
