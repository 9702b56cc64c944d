//! A Temporal server, which Temporal's command line tool starts in development mode.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::fetch::{Program, TEMPORAL};
use crate::http::listens;
use crate::server::{Recipe, Server, Service, free_ports, isolate};

/// A Temporal server with fresh data and the namespace `default`.
pub type TemporalServer = Server<Temporal>;

/// The port of a Temporal server, and the program and folder for its health check.
#[derive(Debug)]
pub struct Temporal {
    port: u16,
    program: PathBuf,
    folder: PathBuf,
}

impl Server<Temporal> {
    /// Returns the server that all tests of this process share. The first call starts the server.
    ///
    /// Returns `None` if Temporal is not available, like [`or_skip`](Self::or_skip).
    ///
    /// # Panics
    ///
    /// Panics like [`or_skip`](Self::or_skip).
    pub fn shared() -> Option<&'static Self> {
        static SHARED: LazyLock<Option<TemporalServer>> = LazyLock::new(TemporalServer::or_skip);
        SHARED.as_ref()
    }

    /// Starts a server with its data in the file `data`, which is not removed with the server. The file is created if
    /// it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`start`](Self::start).
    pub fn start_in(data: &Path) -> io::Result<Self> {
        Self::launch(&TEMPORAL.find()?, Some(&std::path::absolute(data)?))
    }

    /// Returns the address for gRPC requests, such as `127.0.0.1:7233`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.service.port)
    }
}

impl Service for Temporal {
    const PROGRAM: &'static Program = &TEMPORAL;

    fn prepare(program: &Path, folder: &Path, data: &Path) -> io::Result<(Self, Recipe)> {
        let [port] = free_ports()?;
        // `--headless` disables the web interface. The server chooses its other ports itself, at the same IP address.
        let args = "server start-dev --headless --log-level error --ip 127.0.0.1 --port";
        let mut args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        args.extend([port.to_string(), "--db-filename".to_owned(), data.display().to_string()]);
        let program = program.to_owned();
        let recipe = Recipe { program: program.clone(), args, ..Recipe::default() };
        Ok((Self { port, program, folder: folder.to_owned() }, recipe))
    }

    /// Returns `true` if Temporal's command line tool reports that the server is healthy.
    fn is_ready(&self, _log: &str) -> bool {
        let mut health = Command::new(&self.program);
        health.args(["operator", "cluster", "health", "--command-timeout", "2s", "--address"]);
        health.arg(format!("127.0.0.1:{}", self.port)).stdin(Stdio::null());
        isolate(&mut health, &self.folder);
        // The whole line is compared, because `NOT_SERVING` also contains `SERVING`.
        let serves = |text: &[u8]| text.split(|&byte| byte == b'\n').any(|line| line == b"SERVING");
        listens(self.port) && health.output().is_ok_and(|output| serves(&output.stdout))
    }
}
