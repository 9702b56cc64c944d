//! The process of a server, its folder, and the shell that guards both.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Recipe, isolate};

/// Script of the shell that guards a server.
const GUARD: &str = include_str!("guard.sh");

/// Script of the shell that becomes the server once the guard knows its process id.
const LAUNCH: &str = r#"read -r _ && exec "$@" </dev/null"#;

/// Parts of the servers' logs in lower case. They mean that a port is taken, or that PostgreSQL's memory is not
/// released yet.
const PORT_TAKEN: [&str; 4] =
    ["address in use", "address already in use", "is already in use", "shared memory block"];

/// Maximum time for a start or an end.
const LIMIT: Duration = Duration::from_secs(120);

/// Pause between two checks of a process.
const PAUSE: Duration = Duration::from_millis(10);

/// Number of lines of a log that are shown with an error.
const SHOWN: usize = 60;

/// The outcome of a start.
pub(super) enum Launch {
    Ready,
    /// Another process listens on a port.
    PortTaken,
}

/// A folder, and the server that runs in it, if there is one.
#[derive(Debug)]
pub(super) struct Process {
    folder: PathBuf,
    server: Option<Child>,
    guard: Child,
    /// Closed on drop, or with this process. The guard then cleans up.
    guard_input: Option<ChildStdin>,
    /// The signal that ends the server on drop.
    end: &'static str,
}

impl Process {
    /// Creates the folder, and the shell that will remove it.
    pub(super) fn new(end: &'static str) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("neuron-server-{}", secret()));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARD, "server-guard"]).arg(&folder).arg(end);
        // A separate process group, so that Ctrl-C does not reach the shell. The shell ends when the tests have ended.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = command.spawn()?;
        let (guard_input, output) = (guard.stdin.take(), guard.stdout.take());
        let process = Self { folder, server: None, guard, guard_input, end };
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line)?;
        }
        match line.trim() {
            "ready" => Ok(process),
            _ => Err(io::Error::other(format!("cannot make {}", process.folder.display()))),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the server, and waits until it is ready or has ended.
    pub(super) fn start(
        &mut self,
        recipe: &Recipe,
        is_ready: impl Fn(&str) -> bool,
    ) -> io::Result<Launch> {
        self.kill()?;
        let earlier = fs::metadata(self.log_file()).map_or(0, |log| log.len());
        self.spawn(recipe)?;
        let deadline = Instant::now() + LIMIT;
        loop {
            // The order matters. If this server has ended, another server may be the one that is ready.
            let ready = is_ready(&self.log(earlier));
            let ended = self.has_ended()?;
            if ready && !ended {
                return Ok(Launch::Ready);
            }
            if ended || Instant::now() > deadline {
                self.kill()?;
                let log = self.log(earlier);
                let lower = log.to_lowercase();
                if ended && PORT_TAKEN.iter().any(|words| lower.contains(words)) {
                    return Ok(Launch::PortTaken);
                }
                let what = if ended { "it ended" } else { "it does not get ready" };
                return Err(io::Error::other(format!("{what}; its log:\n{}", last_lines(&log))));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn spawn(&mut self, recipe: &Recipe) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(self.log_file())?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", LAUNCH, "server-launch"]).arg(&recipe.program).args(&recipe.args);
        isolate(&mut command, &self.folder);
        command.envs(recipe.variables.iter().map(|(key, value)| (key, value)));
        if let Some(user) = recipe.user {
            command.uid(user).gid(user);
        }
        command.process_group(0).stdin(Stdio::piped()).stderr(log.try_clone()?).stdout(log);
        let mut server = command.spawn()?;
        let launch = server.stdin.take();
        let id = server.id();
        self.server = Some(server);
        // The guard gets the id first, so that it can end the server. The server starts only after the second line.
        self.report(&id.to_string())?;
        launch.map_or(Ok(()), |mut launch| writeln!(launch))
    }

    /// Kills all processes of the server, and waits until they have ended.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        let mut children = String::new();
        // After a wait, the id may belong to another process.
        if server.try_wait()?.is_none() {
            let id = server.id().to_string();
            // Linux lists the child processes. On other systems the processes of PostgreSQL end by themselves a moment
            // later.
            let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
            children = list.unwrap_or_default();
            signal("KILL", std::iter::once(&*id).chain(children.split_whitespace()))?;
            server.kill()?;
            server.wait()?;
        }
        let deadline = Instant::now() + LIMIT;
        while children.split_whitespace().any(is_running) && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        // The guard must not end a later process with the same id.
        self.report("")
    }

    /// Sends a signal that ends the server, and kills the server if it does not end.
    pub(super) fn stop(&mut self, with: &str) -> io::Result<()> {
        if !self.has_ended()?
            && let Some(id) = self.id()
        {
            // The process has not been waited for, so the id is still its own.
            signal(with, [&*id.to_string()])?;
        }
        let deadline = Instant::now() + LIMIT;
        while !self.has_ended()? && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        self.kill()
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        match &mut self.server {
            Some(server) => Ok(server.try_wait()?.is_some()),
            None => Ok(true),
        }
    }

    fn report(&mut self, line: &str) -> io::Result<()> {
        match &mut self.guard_input {
            Some(input) => writeln!(input, "{line}"),
            None => Ok(()),
        }
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// Returns the log from a byte position to the end.
    pub(super) fn log(&self, from: u64) -> String {
        let log = fs::read(self.log_file()).unwrap_or_default();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        String::from_utf8_lossy(log.get(from..).unwrap_or_default()).into_owned()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // `eprintln!` may panic. An error is ignored, because a log that cannot be written has no reader.
            let _ = writeln!(io::stderr(), "the server's log:\n{}", last_lines(&self.log(0)));
        }
        // If the server cannot be ended here, the guard ends it.
        let _ = match self.end {
            "KILL" => self.kill(),
            end => self.stop(end),
        };
        self.guard_input = None;
        // An error means that the shell has ended.
        let _ = self.guard.wait();
    }
}

/// Returns sixteen digits that cannot be guessed.
pub(crate) fn secret() -> String {
    // The standard library seeds its hash tables with random numbers of the system.
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// Sends a signal to processes, of which some may have ended.
fn signal<'a>(name: &str, ids: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    let mut kill = Command::new("/bin/sh");
    kill.args(["-c", r#"kill "$@""#, "kill", &format!("-{name}")]).args(ids);
    kill.stderr(Stdio::null()).status().map(drop)
}

/// Returns `true` if Linux lists a process that has not ended. A zombie has ended.
fn is_running(id: &str) -> bool {
    fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let skipped = lines.len().saturating_sub(SHOWN);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}
