//! The reference server with every feature, over HTTP.

use std::path::Path;
use std::{fs, io};

use super::Suite;
use crate::fetched::or_skip;
use crate::fetched::program::MCP_NODE;
use crate::server_process::{ATTEMPTS, Launch, Recipe, Server, free_ports};

/// `@modelcontextprotocol/server-everything` over Streamable HTTP, in a process of this process's own.
///
/// Dropping it kills the server.
#[derive(Debug)]
pub struct EverythingServer {
    port: u16,
    server: Server,
}

impl EverythingServer {
    /// Starts a server. Where it cannot be had the answer is `None`, and one line on standard error says that
    /// something was not tested.
    ///
    /// # Panics
    ///
    /// If the server cannot be started; with the environment variable `CI=true` also where it cannot be had.
    #[must_use]
    pub fn or_skip() -> Option<Self> {
        or_skip(&MCP_NODE, Self::start())
    }

    /// Starts a server. It blocks until the server takes requests.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] where the server cannot be had; else what the system or the server says.
    pub fn start() -> io::Result<Self> {
        let program = Suite::find()?.server_everything();
        for _ in 0..ATTEMPTS {
            let mut server = Server::new()?;
            let [port] = free_ports()?;
            let mut args = program.args.clone();
            args.push("streamableHttp".to_owned());
            let variables = vec![("PORT", port.to_string())];
            let recipe = Recipe { program: program.program.clone().into(), args, variables };
            let log = server.folder().join("log");
            // Another may take the port meanwhile.
            if let Launch::Ready = server.launch(&recipe, || is_ready(&log))? {
                return Ok(Self { port, server });
            }
        }
        Err(io::Error::other("no port is free"))
    }

    /// Returns where the server takes requests, such as `http://127.0.0.1:3001/mcp`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Returns the number of the server's process; none after [`kill`](Self::kill).
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.server.process_id()
    }

    /// Kills the server (SIGKILL). It blocks until the server is gone.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn kill(&mut self) -> io::Result<()> {
        self.server.kill()
    }

    /// Returns what the server has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.server.log()
    }
}

/// Whether the server says that it listens. It says so too when the port is taken, but not alone.
fn is_ready(log: &Path) -> bool {
    let log = fs::read_to_string(log).unwrap_or_default();
    log.contains("listening on port") && !log.contains("Failed to start")
}
