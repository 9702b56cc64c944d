//! A real PostgreSQL server for tests: started by the test process, and gone with it.
//!
//! ```no_run
//! use neuron_testkit::postgres::PostgresServer;
//!
//! # fn main() {
//! let Some(server) = PostgresServer::shared() else {
//!     return; // This machine has no PostgreSQL; a line on standard error said so.
//! };
//! println!("{}", server.url("postgres"));
//! # }
//! ```
//!
//! The programs `initdb` and `postgres` are those of the folder that the environment variable
//! `NEURON_POSTGRES_BIN` names, else those in `PATH`, else those where Debian, Red Hat, Homebrew and
//! the source distribution put them.
//!
//! A server has fresh data in a temporary folder, listens on a free port of the loopback interface,
//! asks for a password, and writes every commit to the disk, as a server in production does. Root may
//! not run PostgreSQL: for root it runs as the user `nobody`. A shell holds it and waits for the end of
//! the test process: so it ends with the test process also if that is killed, and leaves nothing behind.

mod process;
mod programs;

use std::io::{self, Write};
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex, MutexGuard, Once, PoisonError};

use process::{Guard, Launch};

/// What is said where there is no PostgreSQL.
const NOT_TESTED: &str = "not tested: whatever needs PostgreSQL";

/// How many ports are tried, and how often a server is started that finds the last one still ending.
const ATTEMPTS: usize = 50;

/// A PostgreSQL server of this process's own.
///
/// Dropping it stops the server and removes its data.
#[derive(Debug)]
pub struct PostgresServer {
    port: u16,
    guard: Mutex<Guard>,
}

impl PostgresServer {
    /// Returns the server that all tests of this process share, and starts it with the first call.
    ///
    /// Where PostgreSQL cannot be had it returns `None`, and one line on standard error says that
    /// something was not tested.
    ///
    /// # Panics
    ///
    /// If the server cannot be started; with the environment variable `CI=true` also where PostgreSQL
    /// cannot be had.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: LazyLock<Option<PostgresServer>> = LazyLock::new(PostgresServer::or_skip);
        SHARED.as_ref()
    }

    /// Starts a server of its own, for tests that stop or kill it. Where PostgreSQL cannot be had it
    /// does as [`shared`](Self::shared).
    ///
    /// # Panics
    ///
    /// As [`shared`](Self::shared).
    #[must_use]
    #[expect(clippy::panic, reason = "tests end where what they need fails")]
    pub fn or_skip() -> Option<Self> {
        static SAID: Once = Once::new();
        match Self::start() {
            Ok(server) => Some(server),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if std::env::var("CI").is_ok_and(|ci| ci == "true") {
                    panic!("with CI=true everything must be tested: {error}");
                }
                SAID.call_once(|| {
                    // Not by `eprintln!`, which tests that pass do not show. If nobody can read the
                    // line, nobody misses it.
                    let _ = writeln!(io::stderr(), "{NOT_TESTED} ({error})");
                });
                None
            }
            Err(error) => panic!("PostgreSQL does not start: {error}"),
        }
    }

    /// Starts a server of its own. It blocks until the server takes connections.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] where PostgreSQL cannot be had; else what the system or the server
    /// says.
    pub fn start() -> io::Result<Self> {
        let mut guard = Guard::new(&programs::find()?)?;
        for _ in 0..ATTEMPTS {
            // PostgreSQL cannot choose a port by itself, and another may take this one meanwhile.
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            match guard.launch(port)? {
                Launch::Ready => return Ok(Self { port, guard: Mutex::new(guard) }),
                Launch::PortTaken => {}
                Launch::Failed(reason) => return Err(io::Error::other(reason)),
            }
        }
        Err(io::Error::other("no port is free"))
    }

    /// Starts the server again, with the data and the port that it had, after [`kill`](Self::kill) or
    /// [`stop`](Self::stop). It blocks until the server takes connections.
    ///
    /// # Errors
    ///
    /// What the system or the server says.
    pub fn restart(&self) -> io::Result<()> {
        let mut guard = self.guard();
        let mut reason = String::new();
        for _ in 0..ATTEMPTS {
            match guard.launch(self.port)? {
                Launch::Ready => return Ok(()),
                Launch::PortTaken => reason = format!("port {} is taken", self.port),
                // Processes that were killed may need a moment to be gone.
                Launch::Failed(why) if why.contains("shared memory block") => reason = why,
                Launch::Failed(why) => return Err(io::Error::other(why)),
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Err(io::Error::other(reason))
    }

    /// Kills all processes of the server at once (SIGKILL), as a failing machine would. Only what was
    /// committed is there after [`restart`](Self::restart).
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn kill(&self) -> io::Result<()> {
        self.guard().kill()
    }

    /// Stops the server: it ends its connections and exits cleanly.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn stop(&self) -> io::Result<()> {
        self.guard().stop()
    }

    /// Returns the address of a database, with user and password. The database `postgres` is there,
    /// others are to be created.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/{database}", self.password(), self.port)
    }

    /// Returns the port, at 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the password of the user `neuron`, who may do everything.
    #[must_use]
    pub fn password(&self) -> String {
        self.guard().password().to_owned()
    }

    /// Returns what the server has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.guard().log()
    }

    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who the server was made by, and who may do everything.
const USER: &str = "neuron";
