//! What the programs that are fetched for tests are called. `xtask`, which fetches them, reads this too.

/// A program that tests run, and that is neither ours nor to be expected on a machine.
#[derive(Debug)]
pub(crate) struct Program {
    /// What people call it.
    pub(crate) name: &'static str,
    /// What `cargo xtask` calls it: a command, and the argument that chooses this one.
    pub(crate) command: [&'static str; 2],
    /// The environment variable that names the program; [`NONE`] says that there is none.
    pub(crate) variable: &'static str,
    /// The folder in which `cargo xtask` puts it, below the target folder. It has the version, so that another
    /// version is another folder.
    pub(crate) folder: &'static str,
    /// Where the program is in the folder.
    pub(crate) file: &'static str,
}

pub(crate) const RESTATE: Program = Program {
    name: "Restate",
    command: ["engines", "restate"],
    variable: "NEURON_RESTATE_SERVER",
    folder: "engines/restate-1.7.12",
    file: "restate-server",
};

pub(crate) const TEMPORAL: Program = Program {
    name: "Temporal",
    command: ["engines", "temporal"],
    variable: "NEURON_TEMPORAL_SERVER",
    folder: "engines/temporal-1.9.1",
    file: "temporal",
};

/// Node.js, with the conformance suite and the servers in `node_modules` beside it. The folder has the versions
/// of the three.
pub(crate) const MCP_NODE: Program = Program {
    name: "the conformance suite and the reference servers of MCP",
    command: ["mcp", "node"],
    variable: "NEURON_MCP_NODE",
    folder: "mcp/node-24.21.0-0.2.0-alpha.12-2026.8.31",
    file: "node",
};

/// A Python that has the SDK.
pub(crate) const MCP_PYTHON: Program = Program {
    name: "MCP's SDK for Python",
    command: ["mcp", "python"],
    variable: "NEURON_MCP_PYTHON",
    folder: "mcp/python-2.3.0",
    file: "bin/python",
};

/// The value of a variable that says: do not look further.
pub(crate) const NONE: &str = "none";
