//! Real servers of the durable engines, which end with the test process.
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
//! The environment variables `NEURON_RESTATE_SERVER` and `NEURON_TEMPORAL_SERVER` name programs of your own, or
//! `none`. Otherwise the programs are [fetched](crate::fetch).

mod restate;
mod temporal;

pub use restate::{Restate, RestateServer};
pub use temporal::{Temporal, TemporalServer};
