//! A Temporal server, as its command line tool starts one for development.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::fetched::program::TEMPORAL;
use crate::fetched::{find, or_skip};
use crate::server_process::{
    ANSWER, ATTEMPTS, Launch, Recipe, Server, free_ports, isolate, listens,
};

/// A Temporal server of this process's own, with fresh data and the namespace `default`.
///
/// Dropping it kills the server and removes its data.
#[derive(Debug)]
pub struct TemporalServer {
    port: u16,
    recipe: Recipe,
    server: Mutex<Server>,
}

impl TemporalServer {
    /// Returns the server that all tests of this process share, and starts it with the first call.
    ///
    /// Where Temporal cannot be had it returns `None`, and one line on standard error says that something
    /// was not tested.
    ///
    /// # Panics
    ///
    /// If the server cannot be started; with the environment variable `CI=true` also where Temporal cannot
    /// be had.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: LazyLock<Option<TemporalServer>> = LazyLock::new(TemporalServer::or_skip);
        SHARED.as_ref()
    }

    /// Starts a server of its own, for tests that stop or kill it. Where Temporal cannot be had it does as
    /// [`shared`](Self::shared).
    ///
    /// # Panics
    ///
    /// As [`shared`](Self::shared).
    #[must_use]
    pub fn or_skip() -> Option<Self> {
        or_skip(&TEMPORAL, Self::start())
    }

    /// Starts a server with fresh data. It blocks until the server takes requests.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] where Temporal cannot be had; else what the system or the server says.
    pub fn start() -> io::Result<Self> {
        Self::start_with(None)
    }

    /// Starts a server whose data are in this file, which is made if it is not there, and stays. It blocks
    /// until the server takes requests.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_in(data: &Path) -> io::Result<Self> {
        Self::start_with(Some(std::path::absolute(data)?))
    }

    fn start_with(data: Option<PathBuf>) -> io::Result<Self> {
        let program = find::program(&TEMPORAL)?;
        for _ in 0..ATTEMPTS {
            let mut server = Server::new()?;
            let [port] = free_ports()?;
            let data = data.clone().unwrap_or_else(|| server.folder().join("data.db"));
            let recipe = recipe(program.clone(), port, &data);
            let folder = server.folder().to_owned();
            // Another may take the port meanwhile.
            if let Launch::Ready = server.launch(&recipe, || is_ready(&program, port, &folder))? {
                return Ok(Self { port, recipe, server: Mutex::new(server) });
            }
        }
        Err(io::Error::other("no port is free"))
    }

    /// Starts the server again, with the data and the port that it had, after [`kill`](Self::kill) or
    /// [`stop`](Self::stop). It blocks until the server takes requests. A server that runs is killed first.
    ///
    /// # Errors
    ///
    /// What the system or the server says.
    pub fn restart(&self) -> io::Result<()> {
        let mut server = self.server();
        let folder = server.folder().to_owned();
        let program = &self.recipe.program;
        super::restart(&mut server, &self.recipe, || is_ready(program, self.port, &folder))
    }

    /// Kills the server (SIGKILL), as a failing machine would. It blocks until the server is gone.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn kill(&self) -> io::Result<()> {
        self.server().kill()
    }

    /// Stops the server (SIGTERM), and kills it if it takes more than 30 seconds. It blocks until the
    /// server is gone.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn stop(&self) -> io::Result<()> {
        self.server().stop()
    }

    /// Returns where the server takes gRPC, such as `127.0.0.1:7233`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the number of the server's process; none after [`kill`](Self::kill) and
    /// [`stop`](Self::stop).
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.server().process_id()
    }

    /// Returns what the server has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.server().log()
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn recipe(program: PathBuf, port: u16, data: &Path) -> Recipe {
    let port = port.to_string();
    let data = data.display().to_string();
    // Without the web interface. Its other ports it chooses itself, at the same address.
    let args = ["server", "start-dev", "--headless", "--log-level", "error", "--ip", "127.0.0.1"];
    let chosen = ["--port", &port, "--db-filename", &data];
    let args = args.into_iter().chain(chosen).map(str::to_owned).collect();
    Recipe { program, args, variables: Vec::new() }
}

/// Whether the server says of itself that it serves.
fn is_ready(program: &Path, port: u16, folder: &Path) -> bool {
    if !listens(port) {
        return false;
    }
    let mut ask = Command::new(program);
    ask.args(["operator", "cluster", "health", "--address", &format!("127.0.0.1:{port}")]);
    ask.args(["--command-timeout", &format!("{}s", ANSWER.as_secs())]);
    isolate(&mut ask, folder);
    ask.current_dir(folder).stdin(Stdio::null());
    // A line of its own: `NOT_SERVING` is another answer.
    let serves =
        |answer: &[u8]| String::from_utf8_lossy(answer).lines().any(|line| line == "SERVING");
    ask.output().is_ok_and(|answer| serves(&answer.stdout))
}
