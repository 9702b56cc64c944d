//! The command `serve`, which starts a separate loopback server for each case, so that a failed case does not affect
//! the other cases.

use std::error::Error;
use std::io::{Read, Write};

use serde_json::json;

use crate::cases::{Case, cases};
use crate::vendor::{API_KEY, MODEL, Vendor};

/// Starts the servers of a vendor, and prints one line of JSON with their URLs and the expected meaning of their
/// replies. Runs until standard input ends.
///
/// # Errors
///
/// Returns an error if a server cannot be started, or if a server has replies that no client requested.
pub(crate) fn run(vendor: &Vendor) -> Result<(), Box<dyn Error>> {
    // The servers run on the runtime's worker thread, while this thread waits for the end of standard input.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut servers = Vec::new();
    let mut described = Vec::new();
    for Case { name, replies, means } in cases(vendor)? {
        let count = replies.len();
        let server = runtime.block_on((vendor.start)(replies))?;
        described
            .push(json!({"case": name, "url": server.url(), "replies": count, "means": means}));
        servers.push((name, server));
    }
    let line = json!({"key": API_KEY, "model": MODEL, "cases": described});
    writeln!(std::io::stdout(), "{line}")?;

    std::io::stdin().read_to_end(&mut Vec::new())?;

    let left = servers.iter().filter(|(_, server)| server.remaining() > 0);
    let left: Vec<String> =
        left.map(|(name, server)| format!("{} of `{name}`", server.remaining())).collect();
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!("replies that no client requested: {}", left.join(", ")).into())
    }
}
