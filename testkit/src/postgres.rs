//! A real PostgreSQL server, which ends with the test process.
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
//! The environment variable `NEURON_POSTGRES_BIN` contains the path of the folder with `initdb` and `postgres`, or
//! `none`. Otherwise the programs of this machine are used. If it has none, they are [fetched](crate::fetch).
//!
//! A server requires a password, and writes every commit to the disk, like a server in production. Root may not run
//! PostgreSQL, so for root it runs as the user `nobody`. `initdb` runs once per target folder, and each server starts
//! with a copy of the result.

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

/// The user with all permissions.
const USER: &str = "neuron";

/// Settings of a server.
const SETTINGS: &str = "listen_addresses=127.0.0.1 unix_socket_directories= timezone=GMT fsync=on \
                        full_page_writes=on synchronous_commit=on max_connections=200 logging_collector=off";

impl Server<Postgres> {
    /// Returns the server that all tests of this process share. The first call starts it. See
    /// [`or_skip`](Self::or_skip).
    ///
    /// # Panics
    ///
    /// Panics like [`or_skip`](Self::or_skip).
    pub fn shared() -> Option<&'static Self> {
        static SHARED: LazyLock<Option<PostgresServer>> = LazyLock::new(PostgresServer::or_skip);
        SHARED.as_ref()
    }

    /// Returns the URL of a database, with user and password. The database `postgres` exists. Other databases must be
    /// created.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let Postgres { port, password } = &self.service;
        format!("postgres://{USER}:{password}@127.0.0.1:{port}/{database}")
    }

    /// Returns the port at 127.0.0.1.
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
    /// Closes connections at once, and writes all data.
    const STOP: &'static str = "INT";
    /// Ends at once. Unlike a kill, it releases the shared memory.
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
