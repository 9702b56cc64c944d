//! Conformance suites for implementations of neuron's traits.
//!
//! A suite is a set of async functions, one per part. A part panics at the first violation, and the panic message
//! names the part and the case. Call each part from a separate test.
//!
//! | to check | use |
//! |---|---|
//! | a [`Provider`](neuron_types::Provider) over HTTP | [`provider`] |
//! | a [`SessionStorage`](neuron_types::SessionStorage) or [`VersionedSessionStorage`](neuron_types::VersionedSessionStorage) | [`session`] |
//! | that data survives `kill -9` | [`session::kill`] for sessions, [`child_process`] for anything else |
//! | a [`DurableContext`](neuron_types::DurableContext) | the crate `neuron-conformance-durable` |
//!
//! # Stability
//!
//! Unstable: a new version may check more, and a minor release may change any item of this crate.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[doc(hidden)]
pub mod any_api;
#[doc(hidden)]
pub mod case;
pub mod child_process;
#[doc(hidden)]
pub mod damaged_files;
pub mod provider;
#[doc(hidden)]
pub mod random;
pub mod session;

pub use provider::check_provider;
pub use session::{check_plain_session_storage, check_session_storage};
