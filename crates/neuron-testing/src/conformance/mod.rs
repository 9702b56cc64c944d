//! Suites that say whether something of yours holds the contract of a trait.
//!
//! Each is a set of async functions that panic at the first thing that does not hold, with a text
//! that names the case. Call them from your own tests.
//!
//! | for | see |
//! |---|---|
//! | a [`Provider`](neuron_types::Provider) over HTTP | [`provider`] |
//! | a [`SessionStorage`](neuron_types::SessionStorage) or [`VersionedSessionStorage`](neuron_types::VersionedSessionStorage) | [`session`] |
//! | a [`DurableContext`](neuron_types::DurableContext) of an engine, also one whose process is killed | `durable`, with the feature of that name |
//! | what must survive that its process is killed | [`session::kill`], and [`victim`] for things of another kind |

#[cfg(feature = "durable")]
pub mod durable;
pub mod provider;
pub mod session;
pub mod victim;

mod case;
mod random;

pub use provider::check_provider;
pub use session::{check_plain_session_storage, check_session_storage};
