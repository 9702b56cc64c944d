//! What the Model Context Protocol is tested with: its conformance suite, its reference servers, and a Python that
//! has its SDK.
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
//! Node.js is the program that the environment variable `NEURON_MCP_NODE` names, with the packages in
//! `node_modules` beside it; Python the one of `NEURON_MCP_PYTHON`. Where a variable is not set, and the tests are
//! those of neuron itself, `cargo xtask mcp` provides them under `target/`, once. The value `none` says that there
//! is none.
//!
//! The suite and the servers would listen on all interfaces. Started from here they listen on the loopback
//! interface alone.

mod everything;
mod suite;

use std::path::PathBuf;

pub use everything::EverythingServer;
pub use suite::{NodeProgram, Suite};

use crate::fetched::program::MCP_PYTHON;
use crate::fetched::{find, or_skip};

/// Returns where a Python is that can `import mcp`.
///
/// Where it cannot be had the answer is `None`, and one line on standard error says that something was not
/// tested.
///
/// # Panics
///
/// With the environment variable `CI=true` where it cannot be had.
#[must_use]
pub fn python_or_skip() -> Option<PathBuf> {
    or_skip(&MCP_PYTHON, find::program(&MCP_PYTHON))
}
