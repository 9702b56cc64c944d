//! A server process that stops when the test process exits.
//!
//! A server has fresh data in a temporary folder. It listens only on free ports of the loopback interface, and does not
//! inherit the developer's environment variables.
//!
//! A guard shell waits until the test process exits, then stops the server and removes its folder. This works even if
//! the test process is killed. The server's log is printed if the server does not start, and if a test that owns the
//! server panics.

mod process;

use std::fmt::Debug;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) use process::secret;
use process::{Launch, Process};

use crate::fetch::Program;

/// Maximum number of attempts to start a server if another process takes one of its ports.
const ATTEMPTS: usize = 10;

/// A kind of server that a test can start.
pub trait Service: Debug + Send + Sync + Sized + 'static {
    /// The server program.
    const PROGRAM: &'static Program;
    /// Name of the signal that stops the server cleanly.
    const STOP: &'static str = "TERM";
    /// Name of the signal that ends the server immediately when it is dropped.
    const END: &'static str = "KILL";

    /// Chooses free ports, creates the server's data in `data`, and returns the command that starts the server.
    ///
    /// `folder` is the server's temporary folder, which is removed with the server. `data` is inside `folder` unless
    /// the data must be kept after the server ends.
    ///
    /// # Errors
    ///
    /// Returns an I/O error, or the error of a program that creates the data.
    fn prepare(program: &Path, folder: &Path, data: &Path) -> io::Result<(Self, Recipe)>;

    /// Returns `true` if the server accepts requests. `log` is the server's log since this start.
    fn is_ready(&self, log: &str) -> bool;
}

/// The command that starts a server, and the user that runs it.
#[derive(Debug, Default)]
pub struct Recipe {
    /// Path of the program.
    pub program: PathBuf,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Environment variables in addition to the variables that every server gets.
    pub variables: Vec<(&'static str, String)>,
    /// Set to run the server with this user id and group id. `None` keeps the current user.
    pub user: Option<u32>,
}

/// A running server that this process owns.
///
/// Dropping the value ends the server and removes its folder.
#[derive(Debug)]
pub struct Server<S> {
    pub(crate) service: S,
    recipe: Recipe,
    process: Mutex<Process>,
}

impl<S: Service> Server<S> {
    /// Starts a server with fresh data. Returns `None` if the server's program is not available, and prints a message
    /// about it once to standard error.
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be started. With the environment variable `CI=true`, panics also if the server's
    /// program is not available.
    #[must_use]
    pub fn or_skip() -> Option<Self> {
        Self::or_skip_with(&[])
    }

    /// Starts a server like [`or_skip`](Self::or_skip), with these additional environment variables. Most servers read
    /// options from such variables.
    ///
    /// # Panics
    ///
    /// Panics like [`or_skip`](Self::or_skip).
    #[must_use]
    pub fn or_skip_with(variables: &[(&'static str, &str)]) -> Option<Self> {
        S::PROGRAM.or_skip(|program| Self::launch_with(program, None, variables))
    }

    /// Starts a server with fresh data. Blocks until the server accepts requests.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::NotFound`] if the program is not available. Returns another error, which contains the
    /// server's log, if the server does not start.
    pub fn start() -> io::Result<Self> {
        Self::launch(&S::PROGRAM.find()?, None)
    }

    /// Starts a server with its data in `data`, or in its temporary folder if `data` is `None`.
    pub(crate) fn launch(program: &Path, data: Option<&Path>) -> io::Result<Self> {
        Self::launch_with(program, data, &[])
    }

    fn launch_with(
        program: &Path,
        data: Option<&Path>,
        variables: &[(&'static str, &str)],
    ) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let mut process = Process::new(S::END)?;
            let folder = process.folder();
            let data = data.map_or_else(|| folder.join("data"), Path::to_owned);
            let (service, mut recipe) = S::prepare(program, folder, &data)?;
            recipe
                .variables
                .extend(variables.iter().map(|(key, value)| (*key, (*value).to_owned())));
            // Another process may take a free port before the server listens on it. The next attempt chooses other
            // ports.
            if let Launch::Ready = process.start(&recipe, |log| service.is_ready(log))? {
                return Ok(Self { service, recipe, process: Mutex::new(process) });
            }
        }
        Err(io::Error::other("no port is free"))
    }

    /// Starts the server again with the same data and ports, usually after [`kill`](Self::kill) or
    /// [`stop`](Self::stop). Blocks until the server accepts requests. A server that is still running is killed first.
    ///
    /// # Errors
    ///
    /// Returns an I/O error, or an error with the server's log if the server does not start.
    pub fn restart(&self) -> io::Result<()> {
        let mut process = self.process();
        for _ in 0..ATTEMPTS {
            if let Launch::Ready = process.start(&self.recipe, |log| self.service.is_ready(log))? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(io::Error::other("another process listens on a port that the server had"))
    }

    /// Kills all processes of the server with `SIGKILL`, as a machine failure would. Blocks until the processes have
    /// ended.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn kill(&self) -> io::Result<()> {
        self.process().kill()
    }

    /// Stops the server cleanly, and kills it if it has not ended after two minutes. Blocks until the server has ended.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn stop(&self) -> io::Result<()> {
        self.process().stop(S::STOP)
    }

    /// Returns the process id of the server, or `None` after [`kill`](Self::kill) or [`stop`](Self::stop).
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process().id()
    }

    /// Returns the server's whole log, including the logs before each restart.
    #[must_use]
    pub fn log(&self) -> String {
        self.process().log(0)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clears the environment of a command except for `PATH`, and sets its home, temporary and working folder to `folder`.
pub(crate) fn isolate(command: &mut Command, folder: &Path) {
    let path = std::env::var_os("PATH").map(|path| ("PATH", path));
    command.env_clear().envs(path).env("LC_ALL", "C").env("TZ", "UTC");
    command.env("HOME", folder).env("TMPDIR", folder).current_dir(folder);
}

/// Returns `N` different ports of 127.0.0.1 that are currently free.
pub(crate) fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    // All listeners stay open until the end, so that the kernel returns a different port each time.
    let mut listeners = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
