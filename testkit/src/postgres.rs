//! A real PostgreSQL server that stops when the test process exits.
//!
//! ```no_run
//! use neuron_testkit::postgres::PostgresServer;
//!
//! # fn main() {
//! let Some(server) = PostgresServer::shared() else {
//!     return; // This machine has no PostgreSQL. A line on standard error reports that.
//! };
//! println!("{}", server.url("postgres"));
//! # }
//! ```
//!
//! Set the environment variable `NEURON_POSTGRES_BIN` to the folder of your own `initdb` and `postgres`, or to `none`
//! to make PostgreSQL unavailable. If the variable is not set, the programs that are installed on this machine are
//! used. If PostgreSQL is not installed, the programs are [fetched](crate::fetch).
//!
//! A server requires a password and flushes every commit to the disk, like a server in production. PostgreSQL refuses
//! to run as root, so if the tests run as root, the server runs as the user `nobody`. `initdb` runs once per target
//! folder, and each server starts with a copy of the result.

mod data;
mod installed;

use std::io;
use std::path::Path;
use std::sync::LazyLock;

pub(crate) use installed::installed;

use crate::fetch::{POSTGRES, Program};
use crate::server::{Recipe, Server, Service, free_ports};

/// A PostgreSQL server with fresh data.
pub type PostgresServer = Server<Postgres>;

/// The port of a PostgreSQL server, and the password of its user.
#[derive(Debug)]
pub struct Postgres {
    port: u16,
    password: String,
}

/// Name of the database user, who has all permissions.
const USER: &str = "neuron";

/// The settings of a server, separated by spaces.
const SETTINGS: &str = "listen_addresses=127.0.0.1 unix_socket_directories= timezone=GMT fsync=on \
                        full_page_writes=on synchronous_commit=on max_connections=200 logging_collector=off";

impl Server<Postgres> {
    /// Returns the server that all tests of this process share. The first call starts the server.
    ///
    /// Returns `None` if PostgreSQL is not available, like [`or_skip`](Self::or_skip).
    ///
    /// # Panics
    ///
    /// Panics like [`or_skip`](Self::or_skip).
    pub fn shared() -> Option<&'static Self> {
        static SHARED: LazyLock<Option<PostgresServer>> = LazyLock::new(PostgresServer::or_skip);
        SHARED.as_ref()
    }

    /// Returns the URL of a database, with user and password. A new server has the database `postgres`. The caller must
    /// create other databases.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let Postgres { port, password } = &self.service;
        format!("postgres://{USER}:{password}@127.0.0.1:{port}/{database}")
    }

    /// Returns the port of 127.0.0.1 on which the server listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.service.port
    }

    /// Returns the password of the user `neuron`, who has all permissions.
    #[must_use]
    pub fn password(&self) -> String {
        self.service.password.clone()
    }
}

impl Service for Postgres {
    const PROGRAM: &'static Program = &POSTGRES;
    /// PostgreSQL's fast shutdown, which closes all connections immediately and writes all data.
    const STOP: &'static str = "INT";
    /// PostgreSQL's immediate shutdown, which writes no data. Unlike `SIGKILL`, it releases the shared memory.
    const END: &'static str = "QUIT";

    fn prepare(program: &Path, folder: &Path, data: &Path) -> io::Result<(Self, Recipe)> {
        let user = data::user(program, folder)?;
        let password = data::make(program, folder, user)?;
        let [port] = free_ports()?;
        let mut args =
            ["-D".into(), data.display().to_string(), "-p".into(), port.to_string()].to_vec();
        args.extend(SETTINGS.split(' ').flat_map(|setting| ["-c".to_owned(), setting.to_owned()]));
        let recipe = Recipe { program: program.to_owned(), args, user, ..Recipe::default() };
        Ok((Self { port, password }, recipe))
    }

    fn is_ready(&self, log: &str) -> bool {
        log.contains("database system is ready to accept connections")
    }
}
