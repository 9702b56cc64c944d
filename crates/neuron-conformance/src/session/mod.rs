//! Whether a storage holds the contract of [`SessionStorage`] and of
//! [`VersionedSessionStorage`].
//!
//! Call one part a test: the test runner then says which part fails, and the panic says in which
//! case. [`check_session_storage`] is all parts in one call, [`check_plain_session_storage`] those of
//! a storage without revisions. [`kill`] is apart, because it needs a process to kill.
//!
//! | part | what has to hold |
//! |---|---|
//! | [`round_trips`] | what is loaded is what was saved, to the last bit |
//! | [`sizes`] | so it is without messages, with ten thousand, with megabytes in one, and deeply nested |
//! | [`missing`] | what is not there is an error of its own |
//! | [`rewriting`] | the last writer wins, whatever was there before |
//! | [`ids`] | ids are taken as they are, or refused by all methods |
//! | [`listing`] | sessions are listed in the order of their ids, with the right numbers |
//! | [`dropping`] | a write that is dropped happens whole or not at all, and never after a later one |
//! | [`writers`] | of writers at the same time one wins, and nothing is torn |
//! | [`creating`] | an id is given once |
//! | [`updating`] | who does not know the newest revision writes nothing |
//! | [`appending`] | messages are added in order, and who does not know the newest revision adds none |
//! | [`revisions`] | no two writes give one revision |
//! | [`versioned_ids`] | what [`ids`] checks, for the methods with revisions |
//! | [`versioned_dropping`] | what [`dropping`] checks, for those |
//! | [`load()`] | many tasks lose nothing of what they write to few sessions |
//!
//! A clone of the storage must be another handle to the same sessions. Sessions of the suite have ids
//! of their own for every call, and are deleted at the end: a storage may hold others. A part needs a
//! tokio runtime with time, of any flavour, whose clock is not paused; with several threads it tries
//! more.
//!
//! # Example
//!
//! ```
//! use std::{collections::BTreeMap, sync::{Arc, Mutex}};
//! use neuron_conformance::session;
//! use neuron_types::*;
//!
//! #[derive(Clone, Default)]
//! struct InMemory(Arc<Mutex<BTreeMap<String, Session>>>);
//!
//! impl SessionStorage for InMemory {
//!     async fn save(&self, session: &Session) -> Result<(), StorageError> {
//!         check_session_id(&session.id)?;
//!         self.0.lock().unwrap().insert(session.id.clone(), session.clone());
//!         Ok(())
//!     }
//!
//!     async fn load(&self, id: &str) -> Result<Session, StorageError> {
//!         check_session_id(id)?;
//!         self.0.lock().unwrap().get(id).cloned().ok_or_else(|| StorageError::NotFound(id.into()))
//!     }
//!
//!     async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
//!         Ok(self.0.lock().unwrap().values().map(Session::summary).collect())
//!     }
//!
//!     async fn delete(&self, id: &str) -> Result<(), StorageError> {
//!         check_session_id(id)?;
//!         self.0.lock().unwrap().remove(id).map(drop).ok_or_else(|| StorageError::NotFound(id.into()))
//!     }
//! }
//!
//! // In your tests: one `#[tokio::test(flavor = "multi_thread")]` a part.
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let storage = InMemory::default();
//! session::round_trips(&storage).await;
//! session::ids(&storage).await;
//! # }
//! ```

mod appending;
mod creating;
mod dropping;
mod ids;
mod listing;
mod load;
mod missing;
mod revisions;
mod rewriting;
mod round_trips;
mod sizes;
mod updating;
mod writers;

pub mod kill;

mod context;
mod sample;

use neuron_types::{SessionStorage, VersionedSessionStorage};

pub use appending::appending;
pub use creating::creating;
pub use dropping::{dropping, versioned_dropping};
pub use ids::{ids, versioned_ids};
pub use listing::listing;
pub use load::{Load, Tally, load};
pub use missing::missing;
pub use revisions::revisions;
pub use rewriting::rewriting;
pub use round_trips::round_trips;
pub use sizes::sizes;
pub use updating::updating;
pub use writers::writers;

/// Checks every part for a storage with revisions, one after the other.
///
/// # Panics
///
/// At the first thing that does not hold; the text names the part and the case.
pub async fn check_session_storage<S>(storage: &S)
where
    S: VersionedSessionStorage + Clone + 'static,
{
    check_plain_session_storage(storage).await;
    creating(storage).await;
    updating(storage).await;
    appending(storage).await;
    revisions(storage).await;
    versioned_ids(storage).await;
    versioned_dropping(storage).await;
    load(storage, Load::default()).await;
}

/// Checks every part for a storage without revisions, one after the other.
///
/// # Panics
///
/// At the first thing that does not hold; the text names the part and the case.
pub async fn check_plain_session_storage<S>(storage: &S)
where
    S: SessionStorage + Clone + 'static,
{
    round_trips(storage).await;
    sizes(storage).await;
    missing(storage).await;
    rewriting(storage).await;
    ids(storage).await;
    listing(storage).await;
    dropping(storage).await;
    writers(storage).await;
}
