//! The process of a server, its folder, and the shell that watches over both.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// What the shell does.
const GUARD: &str = include_str!("server_process/guard.sh");

/// How the server's process begins.
const LAUNCH: &str = include_str!("server_process/launch.sh");

/// How often a server is started that finds a port taken.
pub(crate) const ATTEMPTS: usize = 10;

/// What Restate, Temporal and MCP's reference server say of a port that is taken.
const PORT_TAKEN: [&str; 3] = ["Address in use", "address already in use", "is already in use"];

/// How long a start may take, on a machine that builds other things at the same time.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a server may take to end by itself. Then it is killed.
const FAREWELL: Duration = Duration::from_secs(30);

/// How long an answer may take. Who does not answer by then may be somebody else, on a port that is taken.
pub(crate) const ANSWER: Duration = Duration::from_secs(2);

/// The pause between two looks at a process or a port.
const PAUSE: Duration = Duration::from_millis(20);

/// How many lines of a log are shown with an error.
const SHOWN: usize = 60;

/// How a server is started: the program, its arguments and its environment.
#[derive(Debug, Default)]
pub(crate) struct Recipe {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// How a start went.
pub(crate) enum Launch {
    Ready,
    /// Somebody else listens on a port.
    PortTaken,
}

/// A folder, and the server that runs in it, if it runs.
#[derive(Debug)]
pub(crate) struct Server {
    folder: PathBuf,
    process: Option<Child>,
    shell: Child,
    /// Closed when the server is dropped, or with this process: then the shell cleans up.
    hold: Option<ChildStdin>,
}

impl Server {
    /// Makes the folder, and the shell that will remove it.
    pub(crate) fn new() -> io::Result<Self> {
        // The standard library seeds its hash tables by the system's randomness.
        let random = RandomState::new().hash_one(std::process::id());
        let folder = std::env::temp_dir().join(format!("neuron-server-{random:016x}"));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GUARD, "server-guard"]).arg(&folder);
        // A group of its own: Ctrl-C ends the tests, and thereby the shell.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn()?;
        let hold = shell.stdin.take();
        let answer = shell.stdout.take();
        let server = Self { folder, process: None, shell, hold };
        let mut line = String::new();
        if let Some(answer) = answer {
            BufReader::new(answer).read_line(&mut line)?;
        }
        match line.trim() {
            "ready" => Ok(server),
            _ => Err(io::Error::other(format!("cannot make {}", server.folder.display()))),
        }
    }

    /// The folder, which goes with the server.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the server, and waits until it is ready or has ended.
    pub(crate) fn launch(
        &mut self,
        recipe: &Recipe,
        is_ready: impl Fn() -> bool,
    ) -> io::Result<Launch> {
        self.kill()?;
        let logged = self.log().len();
        self.spawn(recipe)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            // In this order: if it has ended, another server may be what is ready.
            let ready = is_ready();
            if self.has_ended()? {
                let log = self.log();
                let log = log.get(logged..).unwrap_or_default();
                let is_taken = PORT_TAKEN.iter().any(|words| log.contains(words));
                self.kill()?;
                return match is_taken {
                    true => Ok(Launch::PortTaken),
                    false => Err(io::Error::other(format!("it ended; its log:\n{}", end(log)))),
                };
            }
            if ready {
                return Ok(Launch::Ready);
            }
            if Instant::now() > deadline {
                self.kill()?;
                let log = self.log();
                return Err(io::Error::other(format!(
                    "it does not get ready; its log:\n{}",
                    end(&log)
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn spawn(&mut self, recipe: &Recipe) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(self.log_file())?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", LAUNCH, "server-launch"]).arg(&self.folder);
        command.arg(&recipe.program).args(&recipe.args).current_dir(&self.folder);
        isolate(&mut command, &self.folder);
        command.envs(recipe.variables.iter().map(|(key, value)| (key, value)));
        command.process_group(0).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
        self.process = Some(command.spawn()?);
        Ok(())
    }

    /// Kills the server (SIGKILL), and waits until it is gone.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
            self.forget()?;
        }
        Ok(())
    }

    /// Lets the server end (SIGTERM), and waits until it is gone.
    pub(crate) fn stop(&mut self) -> io::Result<()> {
        if let Some(process) = &self.process {
            // The process is not waited for yet, so the number is still its own.
            let number = process.id().to_string();
            Command::new("kill").args(["-TERM", &number]).status()?;
        }
        let deadline = Instant::now() + FAREWELL;
        while !self.has_ended()? && Instant::now() < deadline {
            std::thread::sleep(PAUSE);
        }
        self.kill()
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        match &mut self.process {
            Some(process) => Ok(process.try_wait()?.is_some()),
            None => Ok(true),
        }
    }

    /// The number may become another process's: the shell must not kill that.
    fn forget(&self) -> io::Result<()> {
        match fs::remove_file(self.folder.join("process")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The number of the server's process, if it was started and neither killed nor stopped.
    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// What the server wrote, over all its starts.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Not by `eprintln!`, which may panic. If nobody can read it, nobody misses it.
            let _ = writeln!(io::stderr(), "the server's log:\n{}", end(&self.log()));
        }
        // If it cannot be killed here, the shell does it.
        let _ = self.kill();
        self.hold = None;
        // If the shell cannot be waited for, it is gone.
        let _ = self.shell.wait();
    }
}

/// A program that sees nothing of a developer's settings, and writes nothing outside the folder.
pub(crate) fn isolate(command: &mut Command, folder: &Path) {
    command
        .env_clear()
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("HOME", folder)
        .env("TMPDIR", folder);
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
}

/// Ports of the loopback interface that nobody uses at this moment.
pub(crate) fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    // Held together, so that they differ.
    let mut listeners = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}

/// Whether somebody listens on the port.
pub(crate) fn listens(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), ANSWER).is_ok()
}

/// Whether a GET is answered by 200.
pub(crate) fn answers(port: u16, path: &str) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream =
            TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")?;
        let expected = b"HTTP/1.1 200 ";
        let mut head = [0; 13];
        stream.read_exact(&mut head)?;
        Ok(head == *expected)
    };
    ask().unwrap_or(false)
}

/// The last lines of a log.
fn end(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let skipped = lines.len().saturating_sub(SHOWN);
    lines.into_iter().skip(skipped).collect::<Vec<_>>().join("\n")
}
