//! MCP's reference server `server-everything`, over Streamable HTTP and over the older HTTP+SSE transport of MCP
//! 2024-11-05.

use std::io;
use std::path::Path;

use super::Suite;
use crate::fetch::{MCP_NODE, Program};
use crate::server::{Recipe, Server, Service, free_ports};

/// The reference server `@modelcontextprotocol/server-everything`, over Streamable HTTP.
pub type EverythingServer = Server<Everything>;

/// The port of an [`EverythingServer`].
#[derive(Debug)]
pub struct Everything {
    port: u16,
}

impl Server<Everything> {
    /// Returns the URL for requests, such as `http://127.0.0.1:3001/mcp`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.service.port)
    }
}

impl Service for Everything {
    const PROGRAM: &'static Program = &MCP_NODE;

    fn prepare(node: &Path, _folder: &Path, _data: &Path) -> io::Result<(Self, Recipe)> {
        let (port, recipe) = recipe(node, "streamableHttp")?;
        Ok((Self { port }, recipe))
    }

    /// Returns `true` if the log says that the server listens. If the port is taken, the server logs this too, but also
    /// an error.
    fn is_ready(&self, log: &str) -> bool {
        log.contains("listening on port") && !log.contains("Failed to start")
    }
}

/// The reference server `@modelcontextprotocol/server-everything`, over the HTTP+SSE transport of MCP 2024-11-05.
pub type LegacyEverythingServer = Server<LegacyEverything>;

/// The port of a [`LegacyEverythingServer`].
#[derive(Debug)]
pub struct LegacyEverything {
    port: u16,
}

impl Server<LegacyEverything> {
    /// Returns the URL of the event stream, such as `http://127.0.0.1:3001/sse`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/sse", self.service.port)
    }
}

impl Service for LegacyEverything {
    const PROGRAM: &'static Program = &MCP_NODE;

    fn prepare(node: &Path, _folder: &Path, _data: &Path) -> io::Result<(Self, Recipe)> {
        let (port, recipe) = recipe(node, "sse")?;
        Ok((Self { port }, recipe))
    }

    fn is_ready(&self, log: &str) -> bool {
        log.contains("Server is running on port") && !log.contains("EADDRINUSE")
    }
}

/// Chooses a port. Returns the port and the command that starts the server with this transport.
fn recipe(node: &Path, transport: &str) -> io::Result<(u16, Recipe)> {
    let [port] = free_ports()?;
    let mut args = Suite::new(node).server_everything().args;
    args.push(transport.to_owned());
    let variables = vec![("PORT", port.to_string())];
    Ok((port, Recipe { program: node.to_owned(), args, variables, ..Recipe::default() }))
}
