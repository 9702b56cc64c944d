//! The conformance suite and the reference servers of the Model Context Protocol, and a Python with its SDK.
//!
//! ```no_run
//! use neuron_testkit::mcp::{EverythingServer, Suite};
//!
//! # fn main() {
//! let (Some(suite), Some(server)) = (Suite::or_skip(), EverythingServer::or_skip()) else {
//!     return; // This machine has no Node.js for them; a line on standard error said so.
//! };
//! let mut list = suite.conformance().command();
//! list.args(["list", "--requirements", "2026-07-28"]);
//! println!("{}", server.url());
//! # }
//! ```
//!
//! The environment variable `NEURON_MCP_NODE` names a Node.js of your own, with the packages in `node_modules`
//! beside it, and `NEURON_MCP_PYTHON` a Python of your own. The value `none` says that there is none. Otherwise the
//! programs are [fetched](crate::fetch).
//!
//! The suite and the servers would listen on all interfaces. Started from here they listen on the loopback
//! interface alone.

mod everything;
mod suite;

use std::path::{Path, PathBuf};

pub use everything::{Everything, EverythingServer};
pub use suite::{NodeProgram, Suite};

use crate::fetch::MCP_PYTHON;

/// Returns the path of a Python that can `import mcp`. Returns `None` if it cannot be had, and reports that once on
/// standard error.
///
/// # Panics
///
/// Panics with the environment variable `CI=true` if it cannot be had.
#[must_use]
pub fn python_or_skip() -> Option<PathBuf> {
    MCP_PYTHON.or_skip(|python| Ok(Path::to_owned(python)))
}
