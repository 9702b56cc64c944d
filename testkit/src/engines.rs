//! Real servers of the durable engines. They stop when the test process exits.
//!
//! ```no_run
//! use neuron_testkit::engines::RestateServer;
//!
//! # fn main() {
//! let Some(server) = RestateServer::shared() else {
//!     return; // This machine has no Restate. A line on standard error reports that.
//! };
//! println!("{}", server.ingress_url());
//! # }
//! ```
//!
//! Set the environment variables `NEURON_RESTATE_SERVER` and `NEURON_TEMPORAL_SERVER` to the paths of your own
//! programs, or to `none` to make a program unavailable. A program whose variable is not set is
//! [fetched](crate::fetch).

mod restate;
mod temporal;

pub use restate::{Restate, RestateServer};
pub use temporal::{Temporal, TemporalServer};
