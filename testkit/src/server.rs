//! A server that this process owns and that ends with it.
//!
//! A server has fresh data in a temporary folder. It listens only on free ports of the loopback interface, and does not
//! see a developer's settings. A guard shell waits for the end of the test process. The server therefore ends and its
//! folder is removed even if the test process is killed. The log is shown if a server does not start, and if a test
//! that owns the server panics.

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

/// Maximum number of starts if a port is taken.
const ATTEMPTS: usize = 10;

/// A type of server.
pub trait Service: Debug + Send + Sync + Sized + 'static {
    /// The server program.
    const PROGRAM: &'static Program;
    /// The signal of a clean stop.
    const STOP: &'static str = "TERM";
    /// The signal that ends a server at once if it is not needed any more.
    const END: &'static str = "KILL";

    /// Chooses ports and creates the data of a server. The folder is removed with the server. The data are in this
    /// folder, unless they must be kept after the end of the server.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, or of a program that creates the data.
    fn prepare(program: &Path, folder: &Path, data: &Path) -> io::Result<(Self, Recipe)>;

    /// Returns `true` if the server accepts requests. `log` is the log since the start.
    fn is_ready(&self, log: &str) -> bool;
}

/// The command that starts a server.
#[derive(Debug, Default)]
pub struct Recipe {
    /// The program.
    pub program: PathBuf,
    /// The arguments.
    pub args: Vec<String>,
    /// Environment variables, in addition to the variables of every server.
    pub variables: Vec<(&'static str, String)>,
    /// The id of another user and group.
    pub user: Option<u32>,
}

/// A server that this process owns.
///
/// Dropping it ends the server and removes its folder.
#[derive(Debug)]
pub struct Server<S> {
    pub(crate) service: S,
    recipe: Recipe,
    process: Mutex<Process>,
}

impl<S: Service> Server<S> {
    /// Starts a server. Returns `None` if its program is not available, and reports that once on standard error.
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be started. With the environment variable `CI=true` it also panics if its program is
    /// not available.
    #[must_use]
    pub fn or_skip() -> Option<Self> {
        Self::or_skip_with(&[])
    }

    /// Starts a server like [`or_skip`](Self::or_skip), with additional environment variables, which may set options of
    /// the server.
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
    /// Returns [`io::ErrorKind::NotFound`] if the program is not available. Otherwise returns the error of the system
    /// or the log of the server.
    pub fn start() -> io::Result<Self> {
        Self::launch(&S::PROGRAM.find()?, None)
    }

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
            // Another process may take a port meanwhile.
            if let Launch::Ready = process.start(&recipe, |log| service.is_ready(log))? {
                return Ok(Self { service, recipe, process: Mutex::new(process) });
            }
        }
        Err(io::Error::other("no port is free"))
    }

    /// Starts the server again with the same data and ports, after [`kill`](Self::kill) or [`stop`](Self::stop). Blocks
    /// until the server accepts requests. A running server is killed first.
    ///
    /// # Errors
    ///
    /// Returns the error of the system or the log of the server.
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

    /// Kills all processes of the server at once (SIGKILL), as in a machine failure. Blocks until they have ended.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn kill(&self) -> io::Result<()> {
        self.process().kill()
    }

    /// Stops the server cleanly, and kills it if that takes more than two minutes. Blocks until the server has ended.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn stop(&self) -> io::Result<()> {
        self.process().stop(S::STOP)
    }

    /// Returns the id of the server's process, or `None` after [`kill`](Self::kill) and [`stop`](Self::stop).
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process().id()
    }

    /// Returns the log of all starts of the server.
    #[must_use]
    pub fn log(&self) -> String {
        self.process().log(0)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hides a developer's settings from a command, and sets its home folder to `folder`.
pub(crate) fn isolate(command: &mut Command, folder: &Path) {
    let path = std::env::var_os("PATH").map(|path| ("PATH", path));
    command.env_clear().envs(path).env("LC_ALL", "C").env("TZ", "UTC");
    command.env("HOME", folder).env("TMPDIR", folder).current_dir(folder);
}

/// Returns ports of the loopback interface that are currently free.
pub(crate) fn free_ports<const N: usize>() -> io::Result<[u16; N]> {
    let mut ports = [0; N];
    // All listeners are kept open, so that the ports differ.
    let mut listeners = Vec::with_capacity(N);
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
