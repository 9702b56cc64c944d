//! Real servers of the durable engines for tests: started by the test process, and gone with it.
//!
//! ```no_run
//! use neuron_testkit::engines::RestateServer;
//!
//! # fn main() {
//! let Some(server) = RestateServer::shared() else {
//!     return; // This machine has no Restate; a line on standard error said so.
//! };
//! println!("{}", server.ingress_url());
//! # }
//! ```
//!
//! The programs are those that the environment variables `NEURON_RESTATE_SERVER` and
//! `NEURON_TEMPORAL_SERVER` name. Where a variable is not set, and the tests are those of neuron itself,
//! `cargo xtask engines` provides the program under `target/`, once. The value `none` says that there is no
//! server.
//!
//! A server has fresh data in a temporary folder, or its data where you say. It listens on free ports of the
//! loopback interface alone, and sees nothing of a developer's settings. A shell waits for the end of the
//! test process: so the server ends with the test process also if that is killed, and leaves nothing behind.
//! What a server logs is shown if it does not start, and when a test panics that owns it.

mod http;
mod restate;
mod temporal;

use std::io;

pub use restate::RestateServer;
pub use temporal::TemporalServer;

use crate::server_process::{self, Launch, Recipe, Server};

/// Starts a server on the ports that it had, which may need a moment to be free.
fn restart(server: &mut Server, recipe: &Recipe, is_ready: impl Fn() -> bool) -> io::Result<()> {
    for _ in 0..server_process::ATTEMPTS {
        if let Launch::Ready = server.launch(recipe, &is_ready)? {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err(io::Error::other("another process listens on a port that the server had"))
}
