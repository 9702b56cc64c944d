//! The packages that Node.js runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fetch::MCP_NODE;

/// A script that Node.js runs before each program.
const LOOPBACK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mcp/listen-on-loopback.cjs");

/// The conformance suite and the reference servers of MCP, with the Node.js that runs them.
#[derive(Debug, Clone)]
pub struct Suite {
    node: PathBuf,
}

impl Suite {
    /// Returns the suite. Returns `None` if it is not available, and reports that once on standard error.
    ///
    /// # Panics
    ///
    /// Panics with the environment variable `CI=true` if it is not available.
    #[must_use]
    pub fn or_skip() -> Option<Self> {
        MCP_NODE.or_skip(|node| Ok(Self::new(node)))
    }

    pub(super) fn new(node: &Path) -> Self {
        Self { node: node.to_owned() }
    }

    /// Returns the official conformance suite, `@modelcontextprotocol/conformance`.
    #[must_use]
    pub fn conformance(&self) -> NodeProgram {
        self.program("conformance")
    }

    /// Returns the server with every feature, `@modelcontextprotocol/server-everything`. Its argument is `stdio`. For
    /// HTTP see [`EverythingServer`](super::EverythingServer).
    #[must_use]
    pub fn server_everything(&self) -> NodeProgram {
        self.program("server-everything")
    }

    /// Returns the server for files, `@modelcontextprotocol/server-filesystem`, which uses stdio. Its arguments are the
    /// folders that it may use.
    #[must_use]
    pub fn server_filesystem(&self) -> NodeProgram {
        self.program("server-filesystem")
    }

    /// Returns the server of a knowledge graph, `@modelcontextprotocol/server-memory`, which uses stdio. The environment
    /// variable `MEMORY_FILE_PATH` sets its file.
    #[must_use]
    pub fn server_memory(&self) -> NodeProgram {
        self.program("server-memory")
    }

    /// Returns the path of Node.js.
    #[must_use]
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// Returns the folder of a package, such as `@ai-sdk/mcp`.
    #[must_use]
    pub fn package(&self, name: &str) -> PathBuf {
        // The packages are beside Node.js, or above it if Node.js is in a package too.
        let package = Path::new("node_modules").join(name);
        let mut folders = self.node.ancestors().skip(1).map(|folder| folder.join(&package));
        folders.find(|folder| folder.is_dir()).unwrap_or(package)
    }

    fn program(&self, package: &str) -> NodeProgram {
        let script =
            self.package(&format!("@modelcontextprotocol/{package}")).join("dist/index.js");
        let args = ["--require".to_owned(), LOOPBACK.to_owned(), script.display().to_string()];
        NodeProgram { program: self.node.display().to_string(), args: args.into() }
    }
}

/// The beginning of a command that runs a program of Node.js. The program's own arguments follow.
#[derive(Debug, Clone)]
pub struct NodeProgram {
    /// Path of Node.js.
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
