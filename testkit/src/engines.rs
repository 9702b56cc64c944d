//! Real servers of the durable engines, which end with the test process.
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
//! The environment variables `NEURON_RESTATE_SERVER` and `NEURON_TEMPORAL_SERVER` contain the paths of your own
//! programs, or `none`. Otherwise the programs are [fetched](crate::fetch).

mod restate;
mod temporal;

pub use restate::{Restate, RestateServer};
pub use temporal::{Temporal, TemporalServer};
