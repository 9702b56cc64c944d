//! Starts and ends the child processes of a measurement.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::clients::Case;
use super::usage;

/// The result of a measurement. All numbers except `runs_a_second` are per run of an agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Runs per second, from the start of the first run to the end of the last one.
    pub runs_a_second: f64,
    /// User and system CPU time per run of an agent, in milliseconds.
    pub cpu_ms: f64,
    /// Peak memory of the process minus its peak before the measurement, in bytes per run of an agent.
    pub peak_bytes: f64,
    /// Heap memory while all clients wait for their first response, in bytes per run of an agent.
    pub heap_bytes: f64,
    /// Number of allocations per run of an agent. A reallocation is not counted.
    pub allocations: f64,
}

/// A running measurement. Dropping the value kills its processes and waits until they have ended.
#[derive(Debug)]
pub struct Run {
    // This field is before `server`, so that the client is dropped first. The client would report an error if the
    // server ended before it.
    client: Part,
    server: Part,
    output: Option<std::process::ChildStdout>,
}

impl Run {
    /// Starts the server process and the client process of a measurement. Both run `program`, whose `main` must call
    /// [`play`](super::play).
    ///
    /// # Errors
    ///
    /// Returns an error if a process cannot be started.
    pub fn start(program: &Path, case: Case, agents: usize) -> io::Result<Self> {
        let agents = agents.to_string();
        let mut server = Part::start(program, &["serve", &agents], None)?;
        let told = server.child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let part = ["ask", case.name(), &agents];
        let mut client = Part::start(program, &part, Some(told.into()))?;
        let output = client.child.stdout.take();
        Ok(Self { client, server, output })
    }

    /// Returns the process ids of both processes.
    #[must_use]
    pub fn ids(&self) -> [u32; 2] {
        [self.server.child.id(), self.client.child.id()]
    }

    /// Waits until the measurement ends, and returns its result.
    ///
    /// # Errors
    ///
    /// Returns an error if a process failed. The failed process prints the reason to standard error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills both processes.
    pub async fn finish(mut self) -> io::Result<Measured> {
        let mut output = self.output.take().ok_or_else(|| io::Error::other("no pipe"))?;
        // The blocking read ends when the client process ends, at the latest when `self` is dropped.
        let read = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).map(|_| text)
        });
        let text = read.await.map_err(io::Error::other)??;
        let status = self.client.child.wait()?;
        Measured::read(&text)
            .filter(|_| status.success())
            .ok_or_else(|| io::Error::other(format!("the measurement failed: {status}: {text}")))
    }
}

impl Measured {
    /// Formats the result as one line, which the parent process parses.
    #[must_use]
    pub fn write(&self) -> String {
        let Self { runs_a_second, cpu_ms, peak_bytes, heap_bytes, allocations } = self;
        format!("{runs_a_second} {cpu_ms} {peak_bytes} {heap_bytes} {allocations}")
    }

    /// Parses a line of [`write`](Self::write). Returns `None` if a number is missing.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let mut numbers = line.split_ascii_whitespace().map(|word| word.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self {
            runs_a_second: next()?,
            cpu_ms: next()?,
            peak_bytes: next()?,
            heap_bytes: next()?,
            allocations: next()?,
        })
    }
}

/// A child process that is killed when this value is dropped. If the parent process is killed, the child's standard
/// input ends and the child exits.
#[derive(Debug)]
struct Part {
    child: Child,
    /// Standard input of the server process, which exits when the input is closed.
    _input: Option<ChildStdin>,
}

impl Part {
    /// Starts a child process. A shell raises the process's limit of open files to the maximum, if a shell is
    /// available.
    fn start(program: &Path, part: &[&str], input: Option<Stdio>) -> io::Result<Self> {
        let mut command = if cfg!(unix) {
            let mut command = Command::new("sh");
            // Raises the soft limit to the hard limit. `exec` keeps the process id.
            command.args(["-c", "ulimit -S -n \"$(ulimit -H -n)\"; exec \"$0\" \"$@\""]);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        command.args(part).stdin(input.unwrap_or_else(Stdio::piped)).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        Ok(Self { child, _input: input })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Checks that the limit of open files is high enough for one connection per agent.
///
/// # Errors
///
/// Returns an error if the limit is too low. The text names the limit to raise.
pub fn check_open_files(agents: usize) -> io::Result<()> {
    // The process also has a few other open files.
    let needed = agents + 100;
    let most = usage::most_open_files()?;
    if most >= needed {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{agents} agents need {needed} open files in a process, and {most} are allowed: raise the \
         hard limit (`ulimit -H -n {needed}` as root, LimitNOFILE= of systemd, `--ulimit \
         nofile={needed}` of docker)"
    )))
}
