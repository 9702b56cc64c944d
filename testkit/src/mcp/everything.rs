//! The reference server with every feature, over HTTP.

use std::io;
use std::path::Path;

use super::Suite;
use crate::fetch::{MCP_NODE, Program};
use crate::server::{Recipe, Server, Service, free_ports};

/// `@modelcontextprotocol/server-everything` over Streamable HTTP.
pub type EverythingServer = Server<Everything>;

/// The port of a server with every feature.
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
        let [port] = free_ports()?;
        let mut args = Suite::new(node).server_everything().args;
        args.push("streamableHttp".to_owned());
        let variables = vec![("PORT", port.to_string())];
        let recipe = Recipe { program: node.to_owned(), args, variables, ..Recipe::default() };
        Ok((Self { port }, recipe))
    }

    /// The server logs that it listens even if the port is taken. In this case it also logs an error.
    fn is_ready(&self, log: &str) -> bool {
        log.contains("listening on port") && !log.contains("Failed to start")
    }
}
