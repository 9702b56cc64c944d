//! The gate before a program. It is a confined shell that becomes the program on a signal from this process.
//!
//! Between a start and the first instruction of a program nothing of ours can run in its process: that
//! needs `unsafe`. So a shell starts in its place, with an empty environment, from a thread that is
//! confined for good, says that it is there, and waits for its standard input. From outside the limits
//! are set, and it is looked at what files it inherited. Then it reads the environment, which is in no
//! argument because all users see those, and becomes the program, which reads the rest of the input.

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

/// Says that it is there, runs a line that closes what another library may have left open, and says
/// that. Then it reads lines up to the one that the next line named, runs them and becomes the program.
/// What a shell says of a variable, of a language that is not installed for instance, is not the program's.
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

/// The shell of every system. Some can close only files with one digit.
const SHELL: &str = "/bin/sh";
/// A shell that can close descriptors with two digits.
const LARGER_SHELL: &str = "/bin/bash";

/// Maximum number of open files of a process.
const OPEN_FILES: u64 = 1024;

/// Maximum number of pending signals and timers.
const WAITING_SIGNALS: u64 = 1024;

/// A shell that waits.
pub(super) struct Gate {
    pub(super) child: Child,
    pub(super) pid: Pid,
}

impl Gate {
    /// Starts a gate in a group, from a thread of its own which is confined and ends.
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

    /// Waits for the shell, and makes it close the files that it should not have inherited. They were opened in
    /// this process without the close-on-exec flag.
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

    /// Waits until the shell says a line, or has ended.
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

    /// Returns the error text of the shell after it has ended.
    fn complaint(&mut self) -> String {
        let mut text = Vec::new();
        if let Some(stderr) = self.child.stderr.as_mut() {
            let _ = stderr.take(1000).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    /// The numbers of the files that the shell has open besides its input and outputs.
    fn files(&self) -> Result<Vec<u32>, SandboxError> {
        let folder = format!("/proc/{}/fd", self.pid);
        let listed = descriptors(&folder).map_err(|error| setup_failed(&folder, error))?;
        Ok(listed.into_iter().filter(|number| *number > 2).collect())
    }

    /// Sets the limits that the kernel holds each process to, in soft and hard form.
    pub(super) fn set_limits(&self, limits: &Limits) -> Result<(), SandboxError> {
        // A second more than is watched for all processes together.
        let seconds = limits.cpu_time.saturating_add(Duration::from_millis(1999)).as_secs();
        let all = [
            (Resource::Cpu, seconds, seconds.saturating_add(1)),
            same(Resource::Data, limits.memory.saturating_mul(2)),
            same(Resource::Fsize, limits.file_size),
            same(Resource::Nofile, OPEN_FILES),
            // Signals that wait are counted for all processes of a user: none is kept from others.
            same(Resource::Sigpending, WAITING_SIGNALS),
            // What this process may is not for programs: to come before others.
            same(Resource::Nice, 0),
            same(Resource::Rtprio, 0),
            // A core dump would be a file that nobody asked for.
            same(Resource::Core, 0),
        ];
        all.into_iter().try_for_each(|(resource, soft, hard)| self.set_limit(resource, soft, hard))
    }

    /// Sets a limit, unless what holds for this process is stricter.
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

/// A shell that was not let through has no more to do.
impl Drop for Gate {
    fn drop(&mut self) {
        // Nothing happens to one that was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn descriptors(folder: &str) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// Returns `true` if a descriptor of this process with two digits would be inherited. Files that are opened
/// meanwhile are found when the shell has started.
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

fn same(resource: Resource, limit: u64) -> (Resource, u64, u64) {
    (resource, limit, limit)
}

/// Confines a thread that then ends, to find out which rules the kernel cannot enforce.
pub(super) fn try_confinement(rules: ThreadRules) -> Result<(), SandboxError> {
    on_a_thread(move || rules.enforce())?
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, SandboxError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("confined".to_owned()).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| setup_failed("a thread", error))?;
        let panicked = |_| SandboxError::SetupFailed("the confined thread panicked".to_owned());
        thread.join().map_err(panicked)
    })
}

/// Returns the input of the gate, which is the environment as a script and then the input of the program.
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

/// A value as a word of the shell.
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

/// The signals by which the kernel ends a process at one of its limits.
pub(super) const FILE_SIZE_SIGNAL: i32 = Signal::XFSZ.as_raw();
pub(super) const CPU_TIME_SIGNAL: i32 = Signal::XCPU.as_raw();
