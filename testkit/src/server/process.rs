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

/// Script of the guard shell, which ends the server and removes its folder when this process exits.
const GUARD: &str = include_str!("guard.sh");

/// Script of the shell that becomes the server. It waits for a line, which this process sends after the guard has the
/// process id.
const LAUNCH: &str = r#"read -r _ && exec "$@" </dev/null"#;

/// Texts in a server's log, in lower case, after which a start is repeated. A port is taken, or PostgreSQL's shared
/// memory is not released yet.
const PORT_TAKEN: [&str; 4] =
    ["address in use", "address already in use", "is already in use", "shared memory block"];

/// Maximum time until a server is ready, or until it has ended.
const LIMIT: Duration = Duration::from_secs(120);

/// Pause between two checks if a server is ready or has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// Number of lines at the end of a log that an error contains.
const SHOWN: usize = 60;

/// The result of a start.
pub(super) enum Launch {
    /// The server accepts requests.
    Ready,
    /// The server ended because another process listens on one of its ports.
    PortTaken,
}

/// The folder and the process of a server, and the shell that guards both.
#[derive(Debug)]
pub(super) struct Process {
    folder: PathBuf,
    server: Option<Child>,
    guard: Child,
    /// Standard input of the guard. When it is closed, by drop or by the exit of this process, the guard ends the
    /// server and removes the folder.
    guard_input: Option<ChildStdin>,
    /// Name of the signal that ends the server on drop.
    end: &'static str,
}

impl Process {
    /// Starts the guard shell, which creates the folder. `end` is the name of the signal that ends the server.
    pub(super) fn new(end: &'static str) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("neuron-server-{}", secret()));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARD, "server-guard"]).arg(&folder).arg(end);
        // In a separate process group, Ctrl-C does not reach the guard. The guard must outlive the tests to clean up.
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

    /// Starts the server, and waits until `is_ready` returns `true` for its log or until the server has ended.
    ///
    /// Returns an error with the end of the log if the server ends, or is not ready within [`LIMIT`].
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
            // The order of the two checks matters. If this server has ended, the ready server at its port is another
            // process.
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

    /// Spawns the server's process, and sends its id to the guard before the server program starts.
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
        // The guard must have the id before the server runs, or a crash of this process would leave the server running.
        // The launch shell waits for the line.
        self.report(&id.to_string())?;
        launch.map_or(Ok(()), |mut launch| writeln!(launch))
    }

    /// Kills all processes of the server, and waits until they have ended.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        let mut children = String::new();
        // If `try_wait` returns a status, the process is reaped and its id may belong to another process.
        if server.try_wait()?.is_none() {
            let id = server.id().to_string();
            // Only Linux lists the child processes. On other systems, the child processes of PostgreSQL end by
            // themselves shortly after.
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
        // An empty line makes the guard forget the id. A later process with the same id must not be killed.
        self.report("")
    }

    /// Sends the signal `with` to the server, and kills the server if it has not ended after [`LIMIT`].
    pub(super) fn stop(&mut self, with: &str) -> io::Result<()> {
        if !self.has_ended()?
            && let Some(id) = self.id()
        {
            // The process has not been reaped, so the id cannot belong to another process.
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

    /// Sends a line to the guard, which is the process id of the server or empty.
    fn report(&mut self, line: &str) -> io::Result<()> {
        match &mut self.guard_input {
            Some(input) => writeln!(input, "{line}"),
            None => Ok(()),
        }
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.server.as_ref().map(Child::id)
    }

    /// Returns the server's log from the byte offset `from` to the end.
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
        // An error is ignored, because the guard also ends the server.
        let _ = match self.end {
            "KILL" => self.kill(),
            end => self.stop(end),
        };
        self.guard_input = None;
        // An error is ignored. It means that the guard has already ended.
        let _ = self.guard.wait();
    }
}

/// Returns 16 random hexadecimal digits that other processes cannot guess.
pub(crate) fn secret() -> String {
    // `RandomState` has random keys from the operating system.
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// Sends a signal to processes. Processes that have ended are ignored.
fn signal<'a>(name: &str, ids: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    let mut kill = Command::new("/bin/sh");
    kill.args(["-c", r#"kill "$@""#, "kill", &format!("-{name}")]).args(ids);
    kill.stderr(Stdio::null()).status().map(drop)
}

/// Returns `true` if Linux lists the process `id` as running. A zombie counts as ended.
fn is_running(id: &str) -> bool {
    fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Returns the last [`SHOWN`] lines of a log.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let skipped = lines.len().saturating_sub(SHOWN);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}
