//! Suites that say whether something of yours holds the contract of a trait.
//!
//! Each is a set of async functions that panic at the first thing that does not hold, with a text
//! that names the case. Call them from your own tests.
//!
//! | for | see |
//! |---|---|
//! | a [`Provider`](neuron_types::Provider) over HTTP | [`provider`] |

pub mod provider;

pub use provider::check_provider;
