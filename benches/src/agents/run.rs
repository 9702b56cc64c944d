//! Starting the processes of a measurement, and their end.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::clients::Case;
use super::usage;

/// What one measurement found, each number for one run of an agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Runs a second, from the first start to the last end.
    pub runs_a_second: f64,
    /// Processor time, user's and system's, in milliseconds.
    pub cpu_ms: f64,
    /// The most memory that the process had, in bytes, less what it had before.
    pub peak_bytes: f64,
    /// Bytes on the heap while all wait for their first answer.
    pub heap_bytes: f64,
    /// Allocations; growing in place is not counted.
    pub allocations: f64,
}

/// A measurement under way. Dropping it ends its processes, and waits until they have ended.
#[derive(Debug)]
pub struct Run {
    // Ends first: it would complain of a server that has ended.
    client: Part,
    server: Part,
    output: Option<std::process::ChildStdout>,
}

impl Run {
    /// Starts the server and its client: `program` is the one whose `main` is
    /// [`play`](super::play).
    ///
    /// # Errors
    ///
    /// Those of starting a process.
    pub fn start(program: &Path, case: Case, agents: usize) -> io::Result<Self> {
        let agents = agents.to_string();
        let mut server = Part::start(program, &["serve", &agents], None)?;
        let told = server.child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        let part = ["ask", case.name(), &agents];
        let mut client = Part::start(program, &part, Some(told.into()))?;
        let output = client.child.stdout.take();
        Ok(Self { client, server, output })
    }

    /// The processes.
    #[must_use]
    pub fn ids(&self) -> [u32; 2] {
        [self.server.child.id(), self.client.child.id()]
    }

    /// Waits for what the measurement finds.
    ///
    /// # Errors
    ///
    /// When a part failed; it has said why on standard error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the processes.
    pub async fn finish(mut self) -> io::Result<Measured> {
        let mut output = self.output.take().ok_or_else(|| io::Error::other("no pipe"))?;
        // Ends with the client's process, so at the latest when `self` is dropped.
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
    /// One line.
    pub(super) fn write(&self) -> String {
        let Self { runs_a_second, cpu_ms, peak_bytes, heap_bytes, allocations } = self;
        format!("{runs_a_second} {cpu_ms} {peak_bytes} {heap_bytes} {allocations}")
    }

    fn read(line: &str) -> Option<Self> {
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

/// A process of ours, which does not outlive this. Should we be killed, the end of its input tells it.
#[derive(Debug)]
struct Part {
    child: Child,
    /// Held open: its end tells the server to end.
    _input: Option<ChildStdin>,
}

impl Part {
    /// Starts a part that may have as many files open as it asks for, if there is a shell to say so.
    fn start(program: &Path, part: &[&str], input: Option<Stdio>) -> io::Result<Self> {
        let mut command = if cfg!(unix) {
            let mut command = Command::new("sh");
            // Raises what is in force to what is allowed; `exec` keeps the process.
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
        // Fails when it has ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Checks that so many agents can have a connection each.
///
/// # Errors
///
/// When they cannot; the text says what to raise.
pub fn check_open_files(agents: usize) -> io::Result<()> {
    // A few belong to the process itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let measured = Measured {
            runs_a_second: 1.5,
            cpu_ms: 0.25,
            peak_bytes: 3.0,
            heap_bytes: -4.0,
            allocations: 5e9,
        };
        assert_eq!(Measured::read(&measured.write()), Some(measured));
        assert_eq!(Measured::read("1 2 3 4"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_limit_that_is_too_low_is_told_with_what_to_raise() {
        assert!(check_open_files(1).is_ok());
        let most = usage::most_open_files().unwrap();
        if most < usize::MAX - 100 {
            let error = check_open_files(most).unwrap_err().to_string();
            assert!(error.contains(&format!("nofile={}", most + 100)), "{error}");
        }
    }
}
