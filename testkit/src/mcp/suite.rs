//! The packages that Node.js runs.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::fetched::program::MCP_NODE;
use crate::fetched::{find, or_skip};

/// Runs first in each program.
const LOOPBACK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mcp/listen-on-loopback.cjs");

/// The conformance suite and the reference servers of MCP, with the Node.js that runs them.
#[derive(Debug, Clone)]
pub struct Suite {
    node: PathBuf,
}

impl Suite {
    /// Returns the suite. Where it cannot be had the answer is `None`, and one line on standard error says that
    /// something was not tested.
    ///
    /// # Panics
    ///
    /// With the environment variable `CI=true` where it cannot be had.
    #[must_use]
    pub fn or_skip() -> Option<Self> {
        or_skip(&MCP_NODE, Self::find())
    }

    pub(super) fn find() -> io::Result<Self> {
        Ok(Self { node: find::program(&MCP_NODE)? })
    }

    /// Returns the official conformance suite, `@modelcontextprotocol/conformance`.
    #[must_use]
    pub fn conformance(&self) -> NodeProgram {
        self.program("conformance")
    }

    /// Returns the server with every feature, `@modelcontextprotocol/server-everything`. Its argument is `stdio`;
    /// for HTTP see [`EverythingServer`](super::EverythingServer).
    #[must_use]
    pub fn server_everything(&self) -> NodeProgram {
        self.program("server-everything")
    }

    /// Returns the server of files, `@modelcontextprotocol/server-filesystem`, which speaks over stdio. Its
    /// arguments are the folders that it may use.
    #[must_use]
    pub fn server_filesystem(&self) -> NodeProgram {
        self.program("server-filesystem")
    }

    fn program(&self, package: &str) -> NodeProgram {
        let packages = self.node.with_file_name("node_modules/@modelcontextprotocol");
        let script = packages.join(package).join("dist/index.js");
        let args = ["--require".to_owned(), LOOPBACK.to_owned(), script.display().to_string()];
        NodeProgram { program: self.node.display().to_string(), args: args.into() }
    }
}

/// How a program is started that Node.js runs: its own arguments come after these.
#[derive(Debug, Clone)]
pub struct NodeProgram {
    /// Where Node.js is.
    pub program: String,
    /// The first arguments.
    pub args: Vec<String>,
}

impl NodeProgram {
    /// Returns the command, to which arguments can be added.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        command
    }
}
