//! The child process that hosts the agent. It runs the same program as its parent process.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use tokio::sync::mpsc::UnboundedSender;

/// Exits when the parent process ends. The parent process holds the write end of this process's standard input.
pub(crate) fn end_with_the_watcher() {
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}

/// A child process that hosts the agent. It is killed when it is dropped.
pub(crate) struct Hosted(Child);

impl Hosted {
    /// Starts this program again as a child process, with an environment variable that makes the child host the agent.
    /// Each line that the child prints is sent to `lines`, after the child's process id.
    pub(crate) fn start(
        (variable, value): (&str, &str),
        lines: UnboundedSender<String>,
    ) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .env(variable, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (id, output) = (child.id(), child.stdout.take());
        if let Some(output) = output {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(io::Result::ok) {
                    let _ = lines.send(format!("process {id}: {line}"));
                }
            });
        }
        Ok(Self(child))
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.0.kill()?;
        self.0.wait().map(drop)
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Number of times that each operation has started, by the operation's name.
#[derive(Default)]
pub(crate) struct Begun(BTreeMap<String, usize>);

impl Begun {
    /// Counts the line if it reports the start of an operation. Returns the line without the process id at its
    /// beginning.
    pub(crate) fn count<'a>(&mut self, line: &'a str) -> &'a str {
        let (_, what) = line.split_once(": ").unwrap_or_default();
        if let Some(begun) = what.strip_suffix(" begins") {
            *self.0.entry(begun.to_owned()).or_default() += 1;
        }
        what
    }

    pub(crate) fn print(&self) {
        for (what, times) in &self.0 {
            match times {
                1 => println!("  {what} began once"),
                times => println!("  {what} began {times} times: it was cut off"),
            }
        }
    }
}
