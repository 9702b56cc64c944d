//! Starts a program through a launcher ([`Launcher`]). The launcher is a confined shell that waits for its input and
//! then becomes the program.
//!
//! Without `unsafe`, this crate cannot run its own code in a new process before the program starts. Therefore a
//! confined thread starts a shell with an empty environment instead of the program. The shell reports that it runs, and
//! waits for its standard input.
//!
//! Meanwhile this process sets the limits of the shell and checks which files it inherited. The shell then reads the
//! program's environment from its input, because all users can read the arguments of a process. Finally it becomes the
//! program, which reads the rest of the input.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use neuron_types::SandboxError;
use rustix::process::{Pid, Resource, Rlimit, Signal};

use super::confine::ThreadRules;
use super::program::Program;
use super::{Limits, setup_failed};

/// Script of the launcher's shell, which finally becomes the program. The shell
///
/// - writes an empty line to report that it runs,
/// - executes the first line of its input, which closes inherited files,
/// - writes another empty line,
/// - reads the end marker from the next line of its input,
/// - executes the lines up to the repeated end marker, which set the environment.
///
/// Messages of the shell about a variable, such as an unknown language, are discarded.
const SCRIPT: &str = r#"
echo
IFS= read -r line || exit 125
eval "$line"
echo
IFS= read -r end || exit 125
text=
while IFS= read -r line || exit 125; do
    [ "$line" = "$end" ] && break
    text="$text$line
"
done
unset PWD OLDPWD SHLVL
eval "$text" 2>&-
exec "$@"
"#;

/// Path of the default shell. On some systems this shell can close only descriptors with one digit.
const SHELL: &str = "/bin/sh";
/// Path of the shell that is used if descriptors with two digits must be closed.
const LARGER_SHELL: &str = "/bin/bash";

/// Maximum number of open files of each process in the sandbox.
const OPEN_FILES: u64 = 1024;

/// Maximum number of pending signals and timers of a process.
const WAITING_SIGNALS: u64 = 1024;

/// A confined shell, which waits for its input and then becomes the program.
pub(super) struct Launcher {
    pub(super) child: Child,
    pub(super) pid: Pid,
}

impl Launcher {
    /// Starts a launcher in the process group `group`. A new thread confines itself, starts the shell, and ends.
    pub(super) fn start(
        rules: ThreadRules,
        group: Pid,
        program: &Program,
    ) -> Result<Self, SandboxError> {
        let is_larger = has_large_descriptor() && Path::new(LARGER_SHELL).exists();
        let shell = if is_larger { LARGER_SHELL } else { SHELL };
        let mut command = Command::new(shell);
        command.args(["-c", SCRIPT, "sh"]).arg(&program.path).args(&program.args);
        command.env_clear().current_dir(&program.directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(group.as_raw_nonzero().get());
        let spawn = move || {
            rules.enforce()?;
            command.spawn().map_err(|error| setup_failed(format!("{shell} in the sandbox"), error))
        };
        let child = on_a_thread(spawn)??;
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid })
    }

    /// Waits until the shell runs, and makes it close inherited files. These are files that this process opened without
    /// the close-on-exec flag. Returns an error if a file cannot be closed.
    pub(super) fn close_files(&mut self) -> Result<(), SandboxError> {
        self.wait()?;
        let closing: String = self.files()?.iter().map(|number| format!(" {number}>&-")).collect();
        let line = format!("exec{closing}\n");
        let written = self.child.stdin.as_mut().map(|stdin| stdin.write_all(line.as_bytes()));
        written.unwrap_or(Ok(())).map_err(|error| setup_failed("the shell's input", error))?;
        self.wait()?;
        match self.files()?.first() {
            None => Ok(()),
            Some(number) => Err(SandboxError::SetupFailed(format!(
                "the program would inherit file descriptor {number} of this process; open it with \
                 `O_CLOEXEC`"
            ))),
        }
    }

    /// Waits until the shell writes a line. Returns an error if the shell has ended.
    fn wait(&mut self) -> Result<(), SandboxError> {
        let mut line = [0; 1];
        let stdout = self.child.stdout.as_mut();
        let read = stdout.map_or(Ok(()), |stdout| stdout.read_exact(&mut line));
        match read {
            Ok(()) if line == *b"\n" => Ok(()),
            _ => Err(SandboxError::SetupFailed(format!(
                "the shell does not start in the sandbox: {}",
                self.complaint()
            ))),
        }
    }

    /// Reads the error text of the shell until the shell has ended, at most 1000 bytes.
    fn complaint(&mut self) -> String {
        let mut text = Vec::new();
        if let Some(stderr) = self.child.stderr.as_mut() {
            let _ = stderr.take(1000).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    /// Returns the file descriptors that the shell has open, except 0, 1 and 2.
    fn files(&self) -> Result<Vec<u32>, SandboxError> {
        let folder = format!("/proc/{}/fd", self.pid);
        let listed = descriptors(&folder).map_err(|error| setup_failed(&folder, error))?;
        Ok(listed.into_iter().filter(|number| *number > 2).collect())
    }

    /// Sets the kernel's limits for each process of the program.
    pub(super) fn set_limits(&self, limits: &Limits) -> Result<(), SandboxError> {
        // About one second more than the limit that is checked for all processes together, so that the check acts
        // first.
        let seconds = limits.cpu_time.saturating_add(Duration::from_millis(1999)).as_secs();
        let all = [
            (Resource::Cpu, seconds, seconds.saturating_add(1)),
            same(Resource::Data, limits.memory.saturating_mul(2)),
            same(Resource::Fsize, limits.file_size),
            same(Resource::Nofile, OPEN_FILES),
            // The kernel counts pending signals of a user in all processes, so this limit keeps some for other
            // processes.
            same(Resource::Sigpending, WAITING_SIGNALS),
            // This process may be allowed to raise priorities, and programs must not be.
            same(Resource::Nice, 0),
            same(Resource::Rtprio, 0),
            // A core dump would write an unexpected file.
            same(Resource::Core, 0),
        ];
        all.into_iter().try_for_each(|(resource, soft, hard)| self.set_limit(resource, soft, hard))
    }

    /// Sets a limit of the shell. If this process has a lower limit, the lower limit is used.
    pub(super) fn set_limit(
        &self,
        resource: Resource,
        soft: u64,
        hard: u64,
    ) -> Result<(), SandboxError> {
        let now = rustix::process::getrlimit(resource);
        let least = |limit: u64| now.maximum.map_or(limit, |now| now.min(limit));
        let new = Rlimit { current: Some(least(soft)), maximum: Some(least(hard)) };
        rustix::process::prlimit(Some(self.pid), resource, new)
            .map(drop)
            .map_err(|error| setup_failed(format!("the limit {resource:?}"), error))
    }
}

/// Kills the shell or its program, and waits for its end.
impl Drop for Launcher {
    fn drop(&mut self) {
        // `kill` does nothing if the child was already waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the file descriptors in a folder such as `/proc/PID/fd`.
fn descriptors(folder: &str) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// Returns `true` if this process has a descriptor of more than one digit that a child process would inherit.
/// [`Launcher::close_files`] detects descriptors that are opened later.
fn has_large_descriptor() -> bool {
    let is_inherited = |number: &u32| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"));
        let flags = info.iter().flat_map(|info| info.lines()).find_map(|line| {
            let flags = line.strip_prefix("flags:")?.trim();
            u32::from_str_radix(flags, 8).ok()
        });
        flags.is_some_and(|flags| flags & libc::O_CLOEXEC.unsigned_abs() == 0)
    };
    let numbers = descriptors("/proc/self/fd").unwrap_or_default();
    numbers.iter().any(|number| *number > 9 && is_inherited(number))
}

/// Returns a limit with equal soft and hard values.
fn same(resource: Resource, limit: u64) -> (Resource, u64, u64) {
    (resource, limit, limit)
}

/// Confines a temporary thread. Returns an error if the kernel cannot enforce the rules.
pub(super) fn try_confinement(rules: ThreadRules) -> Result<(), SandboxError> {
    on_a_thread(move || rules.enforce())?
}

/// Runs work on a new thread and waits for its end.
fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, SandboxError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("confined".to_owned()).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| setup_failed("a thread", error))?;
        let panicked = |_| SandboxError::SetupFailed("the confined thread panicked".to_owned());
        thread.join().map_err(panicked)
    })
}

/// Returns the standard input of the launcher. It consists of a shell script that sets the environment, and the input
/// of the program.
pub(super) fn input(program: &mut Program) -> Vec<u8> {
    let mut script = Vec::new();
    for (name, value) in &program.env {
        script.extend_from_slice(b"export ");
        script.extend_from_slice(name.as_bytes());
        script.push(b'=');
        script.extend_from_slice(&quoted(value));
        script.push(b'\n');
    }
    let mut end = String::from("end");
    while script.split(|byte| *byte == b'\n').any(|line| line == end.as_bytes()) {
        end.push('.');
    }
    let mut input = format!("{end}\n").into_bytes();
    input.append(&mut script);
    input.extend_from_slice(format!("{end}\n").as_bytes());
    input.append(&mut program.stdin);
    input
}

/// Quotes a value as one word of a shell script.
fn quoted(value: &OsStr) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in value.as_bytes() {
        match byte {
            b'\'' => word.extend_from_slice(br"'\''"),
            byte => word.push(*byte),
        }
    }
    word.push(b'\'');
    word
}

/// Signal with which the kernel kills a process that exceeds the file size limit.
pub(super) const FILE_SIZE_SIGNAL: i32 = Signal::XFSZ.as_raw();
pub(super) const CPU_TIME_SIGNAL: i32 = Signal::XCPU.as_raw();
