//! The commands of MCP's conformance suite and reference servers, which run on Node.js.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fetch::MCP_NODE;

/// Path of a script that Node.js runs before each program. It changes the program to listen only on the loopback
/// interface.
const LOOPBACK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mcp/listen-on-loopback.cjs");

/// The conformance suite and the reference servers of MCP, with the Node.js that runs them.
#[derive(Debug, Clone)]
pub struct Suite {
    node: PathBuf,
}

impl Suite {
    /// Returns the suite. Returns `None` if the suite is not available, and prints a message about it once to standard
    /// error.
    ///
    /// # Panics
    ///
    /// Panics if the suite is not available and the environment variable `CI=true` is set.
    #[must_use]
    pub fn or_skip() -> Option<Self> {
        MCP_NODE.or_skip(|node| Ok(Self::new(node)))
    }

    pub(super) fn new(node: &Path) -> Self {
        Self { node: node.to_owned() }
    }

    /// Returns the command of MCP's official conformance suite, `@modelcontextprotocol/conformance`.
    #[must_use]
    pub fn conformance(&self) -> NodeProgram {
        self.program("conformance")
    }

    /// Returns the command of the reference server with every feature, `@modelcontextprotocol/server-everything`. Add
    /// the argument `stdio`. For HTTP use [`EverythingServer`](super::EverythingServer).
    #[must_use]
    pub fn server_everything(&self) -> NodeProgram {
        self.program("server-everything")
    }

    /// Returns the command of the reference server for files, `@modelcontextprotocol/server-filesystem`, which uses
    /// stdio. Add the folders that the server may access as arguments.
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
        // `node_modules` is in the folder of Node.js, or in a folder above if Node.js itself is an npm package.
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

/// The beginning of a command that runs a program on Node.js. The caller adds the program's own arguments.
#[derive(Debug, Clone)]
pub struct NodeProgram {
    /// Path of the Node.js executable.
    pub program: String,
    /// The arguments of Node.js, up to the program's script.
    pub args: Vec<String>,
}

impl NodeProgram {
    /// Returns the command. The caller adds the program's own arguments.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        command
    }
}
