//! The conformance suite for [`SessionStorage`] and [`VersionedSessionStorage`].
//!
//! Call each part from a separate test, so that the test runner names the part that fails. The panic message names the
//! case. [`check_session_storage`] runs all parts, and [`check_plain_session_storage`] runs the parts for a storage
//! without revisions. Neither runs [`kill`], which needs a process to kill, or [`damage`], which needs the storage's
//! files.
//!
//! | part | checks that |
//! |---|---|
//! | [`round_trips`] | a session is loaded exactly as it was saved, to the last bit |
//! | [`sizes`] | sessions of unusual sizes are loaded exactly as they were saved |
//! | [`missing`] | a missing session has its own error |
//! | [`rewriting`] | the last write replaces all earlier writes |
//! | [`ids`] | ids are accepted unchanged, or rejected by all methods |
//! | [`listing`] | sessions are listed in the order of their ids, with the right numbers of messages |
//! | [`dropping`] | a dropped write is stored completely or not at all, and never after a later write |
//! | [`writers`] | after concurrent writes, a session equals exactly one of the written sessions |
//! | [`creating`] | an id can be created once |
//! | [`updating`] | an update without the newest revision writes nothing |
//! | [`appending`] | messages are added in order, and only with the newest revision |
//! | [`revisions`] | no two writes have the same revision |
//! | [`versioned_ids`] | the same as [`ids`], for the methods with revisions |
//! | [`versioned_dropping`] | the same as [`dropping`], for the methods with revisions |
//! | [`load()`] | no write is lost when many tasks write to few sessions |
//!
//! A clone of the storage must be a handle to the same sessions. The suite uses new ids in every call and deletes its
//! sessions at the end, so the storage may contain other sessions. A part needs a tokio runtime of any flavour, with
//! time enabled and a clock that is not paused. A multi-threaded runtime tests more interleavings.
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
//! // In your tests: one `#[tokio::test(flavor = "multi_thread")]` per part, by `session_parts!` for a storage with
//! // revisions.
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let storage = InMemory::default();
//! session::round_trips(&storage).await;
//! session::ids(&storage).await;
//! # }
//! ```

mod dropping;
mod ids;
mod load;
mod plain;
mod versioned;
mod writers;

pub mod damage;
pub mod kill;

mod context;
mod sample;

use neuron_types::{SessionStorage, VersionedSessionStorage};

pub use dropping::{dropping, versioned_dropping};
pub use ids::{ids, versioned_ids};
pub use load::{Load, Tally, load};
pub use plain::{listing, missing, rewriting, round_trips, sizes};
pub use versioned::{appending, creating, revisions, updating};
pub use writers::writers;

/// Calls your macro with the names of all parts except [`load`](crate::session::load()), which takes a second argument.
///
/// Arguments after your macro's name are passed to it before the names of the parts. If a new version of the suite adds
/// a part, your macro receives this part too.
///
/// # Example
///
/// ```
/// macro_rules! tests {
///     ($($part:ident)*) => {$(
///         #[tokio::test]
///         async fn $part() {
///             neuron_conformance::session::$part(&MyStorage::default()).await;
///         }
///     )*};
/// }
///
/// neuron_conformance::session_parts!(tests);
/// ```
#[macro_export]
macro_rules! session_parts {
    ($tests:ident $($argument:tt)*) => {
        $tests! {
            $($argument)* round_trips sizes missing rewriting ids listing dropping writers
            creating updating appending revisions versioned_ids versioned_dropping
        }
    };
}

// Calls each part in turn with a storage.
macro_rules! check {
    ($storage:ident $($part:ident)*) => {{$($part($storage).await;)*}};
}

/// Runs every part of the suite, in sequence, for a storage with revisions.
///
/// # Panics
///
/// Panics at the first violation. The message names the part and the case.
pub async fn check_session_storage<S>(storage: &S)
where
    S: VersionedSessionStorage + Clone + 'static,
{
    session_parts!(check storage);
    load(storage, Load::default()).await;
}

/// Runs the parts for a storage without revisions, in sequence.
///
/// # Panics
///
/// Panics at the first violation. The message names the part and the case.
pub async fn check_plain_session_storage<S>(storage: &S)
where
    S: SessionStorage + Clone + 'static,
{
    check!(storage round_trips sizes missing rewriting ids listing dropping writers);
}
