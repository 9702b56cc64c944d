//! The storage under test, and the sessions that it must hold.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{Debug, Display};
use std::future::Future;

use chrono::Utc;
use neuron_types::{
    Message, Session, SessionRevision, SessionState, SessionStorage, SessionSummary, StorageError,
    VersionedSessionStorage,
};

use super::sample;
use crate::case::Case;
use crate::random::unique;

/// The run of a part, with the sessions that the storage must hold.
///
/// After every write it checks the session and the list.
pub(super) struct TestContext<'s, S> {
    pub(super) storage: &'s S,
    /// The current case.
    pub(super) case: Case,
    part: &'static str,
    /// Prefix of the ids of this run.
    prefix: String,
    /// Sessions that must be stored, by id.
    stored: BTreeMap<String, Session>,
    /// Revision of every write so far, with the session's id.
    revisions: HashSet<(String, SessionRevision)>,
}

impl<'s, S: SessionStorage> TestContext<'s, S> {
    pub(super) fn new(part: &'static str, storage: &'s S) -> Self {
        Self {
            storage,
            case: Case::new("session storage", part, "setup"),
            part,
            prefix: format!("conformance-{:016x}-", unique()),
            stored: BTreeMap::new(),
            revisions: HashSet::new(),
        }
    }

    /// Begins a case.
    pub(super) fn begin(&mut self, name: impl Display) {
        self.case = Case::new("session storage", self.part, name);
    }

    /// Returns an id that no other run uses.
    pub(super) fn id(&self, name: impl Display) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Returns a small session with an id of its own.
    pub(super) fn session(&self, name: impl Display) -> Session {
        sample::small(self.id(name))
    }

    /// Awaits a call and returns its value. Panics if the call fails.
    pub(super) async fn ok<T>(&self, call: impl Future<Output = Result<T, StorageError>>) -> T {
        self.case.ok(self.case.soon(call).await)
    }

    /// Saves a session, and checks it.
    pub(super) async fn save(&mut self, session: &Session) {
        self.ok(self.storage.save(session)).await;
        self.must_hold(session);
        self.check(&session.id).await;
    }

    /// Deletes a session, and checks that the session is gone.
    pub(super) async fn delete(&mut self, id: &str) {
        self.ok(self.storage.delete(id)).await;
        self.stored.remove(id);
        self.fails(Kind::NotFound, id, self.storage.load(id)).await;
        self.check_list().await;
    }

    /// Records that a session is stored.
    pub(super) fn must_hold(&mut self, session: &Session) {
        self.stored.insert(session.id.clone(), session.clone());
    }

    /// Checks a stored session, and the list.
    pub(super) async fn check(&self, id: &str) {
        let loaded = self.ok(self.storage.load(id)).await;
        same(&self.case, &loaded, self.stored(id));
        self.check_list().await;
    }

    /// Checks that the list has the stored sessions and no others.
    pub(super) async fn check_list(&self) {
        let expected: Vec<_> = self.stored.values().map(Session::summary).collect();
        self.case.equal("what is listed", self.listed().await, expected);
    }

    /// Returns the summaries of this run's sessions.
    pub(super) async fn listed(&self) -> Vec<SessionSummary> {
        let mut all = self.ok(self.storage.list()).await;
        all.retain(|summary| summary.id.starts_with(&self.prefix));
        all
    }

    /// Checks that a call fails with an error that names a session.
    pub(super) async fn fails<T: Debug>(
        &self,
        kind: Kind,
        id: &str,
        call: impl Future<Output = Result<T, StorageError>>,
    ) {
        is_error(&self.case, kind, id, self.case.err(self.case.soon(call).await));
    }

    /// Checks all sessions once more, and deletes them.
    ///
    /// A save that was dropped may still be under way, so the sessions are deleted until none is left.
    pub(super) async fn finish(mut self) {
        self.begin("the end");
        for (id, session) in &self.stored {
            same(&self.case, &self.ok(self.storage.load(id)).await, session);
        }
        let mut left = self.listed().await;
        for _ in 0..100 {
            for summary in left {
                match self.case.soon(self.storage.delete(&summary.id)).await {
                    Ok(()) | Err(StorageError::NotFound(_)) => {}
                    Err(error) => self.case.fail(format_args!("failed: {error} ({error:?})")),
                }
            }
            left = self.listed().await;
            if left.is_empty() {
                return;
            }
        }
        self.case.fail(format_args!("{left:?} cannot be deleted"));
    }

    /// Returns the session that must be stored under an id.
    pub(super) fn stored(&self, id: &str) -> &Session {
        self.case.some("the session is not stored", self.stored.get(id))
    }
}

impl<S: VersionedSessionStorage> TestContext<'_, S> {
    /// Creates a session, and checks it.
    pub(super) async fn create(&mut self, session: &Session) -> SessionRevision {
        let revision = self.ok(self.storage.create(session)).await;
        self.written("create", session, revision).await
    }

    /// Updates a session, and checks it.
    pub(super) async fn update(
        &mut self,
        session: &Session,
        expected: &SessionRevision,
    ) -> SessionRevision {
        let revision = self.ok(self.storage.update(session, expected)).await;
        self.written("update", session, revision).await
    }

    /// Appends to a session, and checks it.
    pub(super) async fn append(
        &mut self,
        id: &str,
        messages: &[Message],
        state: Option<&SessionState>,
        expected: &SessionRevision,
    ) -> SessionRevision {
        let begin = Utc::now();
        let revision = self.ok(self.storage.append(id, messages, state, expected)).await;
        let mut session = self.stored(id).clone();
        session.messages.extend_from_slice(messages);
        session.state = state.unwrap_or(&session.state).clone();
        session.updated_at = self.ok(self.storage.load(id)).await.updated_at;
        // A database may have a clock of its own, and cut the time.
        let is_now = (session.updated_at - begin).num_minutes().abs() <= 10;
        self.case.holds(is_now, format_args!("updated_at is {}", session.updated_at));
        self.written("append", &session, revision).await
    }

    /// Saves a session, checks it, and returns its revision.
    pub(super) async fn save_versioned(&mut self, session: &Session) -> SessionRevision {
        self.save(session).await;
        let revision = self.ok(self.storage.revision(&session.id)).await;
        self.written("save", session, revision).await
    }

    /// Checks a session after a write, and that no earlier write gave its revision.
    async fn written(
        &mut self,
        write: &str,
        session: &Session,
        revision: SessionRevision,
    ) -> SessionRevision {
        let is_new = self.revisions.insert((session.id.clone(), revision.clone()));
        self.case.holds(is_new, format_args!("{write} gave {revision:?}, which there was before"));
        self.must_hold(session);
        self.check_versioned(&session.id, &revision).await;
        self.check_list().await;
        revision
    }

    /// Checks a stored session with its revision.
    pub(super) async fn check_versioned(&self, id: &str, expected: &SessionRevision) {
        let (loaded, revision) = self.ok(self.storage.load_versioned(id)).await;
        same(&self.case, &loaded, self.stored(id));
        self.case.equal("the revision loaded", &revision, expected);
        self.case.equal("the revision", &self.ok(self.storage.revision(id)).await, expected);
    }

    /// Checks that a write fails with [`StorageError::Conflict`], and changes nothing.
    pub(super) async fn conflict(
        &self,
        id: &str,
        write: impl Future<Output = Result<SessionRevision, StorageError>>,
    ) {
        self.fails(Kind::Conflict, id, write).await;
        self.check(id).await;
    }
}

/// A variant of [`StorageError`] that names a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    NotFound,
    Conflict,
    InvalidId,
}

/// Checks the variant of an error, and the session that it names.
#[track_caller]
pub(super) fn is_error(case: &Case, kind: Kind, id: &str, error: StorageError) {
    let (actual, named) = match &error {
        StorageError::NotFound(named) => (Kind::NotFound, named),
        StorageError::Conflict { id: named } => (Kind::Conflict, named),
        StorageError::InvalidId { id: named, reason } if !reason.is_empty() => {
            (Kind::InvalidId, named)
        }
        _ => case.fail(format_args!("failed with {error:?} and not with {kind:?}")),
    };
    case.holds(actual == kind, format_args!("failed with {error:?} and not with {kind:?}"));
    // A long invalid id is cut.
    let is_named = match named.strip_suffix('…') {
        Some(beginning) if kind == Kind::InvalidId => id.starts_with(beginning),
        _ => named == id,
    };
    case.holds(is_named, format_args!("the error names {named:?}"));
}

/// Checks that two sessions are equal, with the bytes of their messages.
#[track_caller]
pub(super) fn same(case: &Case, actual: &Session, expected: &Session) {
    case.equal("the id", &actual.id, &expected.id);
    case.equal("created_at", actual.created_at, expected.created_at);
    same_content(case, actual, expected);
    case.equal("updated_at", actual.updated_at, expected.updated_at);
}

/// Checks that two sessions have the same messages and state.
#[track_caller]
pub(super) fn same_content(case: &Case, actual: &Session, expected: &Session) {
    case.equal("the number of messages", actual.messages.len(), expected.messages.len());
    for (index, (actual, expected)) in actual.messages.iter().zip(&expected.messages).enumerate() {
        case.equal(&format!("message {index}"), actual, expected);
        // Equal objects may differ in the order of their keys, which changes what providers cache.
        let json = |message| case.ok(serde_json::to_string(message));
        case.equal(&format!("the bytes of message {index}"), json(actual), json(expected));
    }
    case.equal("the state", &actual.state, &expected.state);
}
