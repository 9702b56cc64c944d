//! The conformance suite, servers and clients of the Model Context Protocol, for Node.js and for Python.
//!
//! ```no_run
//! use neuron_testkit::mcp::{EverythingServer, Suite};
//!
//! # fn main() {
//! let (Some(suite), Some(server)) = (Suite::or_skip(), EverythingServer::or_skip()) else {
//!     return; // This machine has no Node.js for them. A line on standard error reports that.
//! };
//! let mut list = suite.conformance().command();
//! list.args(["list", "--requirements", "2026-07-28"]);
//! println!("{}", server.url());
//! # }
//! ```
//!
//! Set the environment variable `NEURON_MCP_NODE` to the path of your own Node.js, whose folder must contain the
//! packages in `node_modules`. Set `NEURON_MCP_PYTHON` to the path of your own Python. The value `none` makes a program
//! unavailable. A program whose variable is not set is [fetched](crate::fetch).
//!
//! By default the suite and the servers listen on all interfaces. This module changes them to listen only on the
//! loopback interface.

mod everything;
mod suite;

use std::path::{Path, PathBuf};

pub use everything::{Everything, EverythingServer, LegacyEverything, LegacyEverythingServer};
pub use suite::{NodeProgram, Suite};

use crate::fetch::MCP_PYTHON;

/// Returns the path of a Python with the packages in `testkit/pins/mcp-python.txt`, such as `mcp` and `fastmcp`. Returns
/// `None` if no such Python is available, and prints a message about it once to standard error.
///
/// # Panics
///
/// Panics if no such Python is available and the environment variable `CI=true` is set.
#[must_use]
pub fn python_or_skip() -> Option<PathBuf> {
    MCP_PYTHON.or_skip(|python| Ok(Path::to_owned(python)))
}
