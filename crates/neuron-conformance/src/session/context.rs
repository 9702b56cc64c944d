//! The storage under test, and the sessions that it must contain.

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

/// The state of a running part of the session suite. Contains the storage under test, and the sessions that the storage
/// must have.
///
/// The methods that write also check the written session and the list of sessions.
pub(super) struct TestContext<'s, S> {
    /// The storage under test.
    pub(super) storage: &'s S,
    /// The current case, for panic messages.
    pub(super) case: Case,
    part: &'static str,
    /// Prefix of all session ids that this context creates. Every context has another prefix.
    prefix: String,
    /// The sessions that the storage must contain, by id.
    stored: BTreeMap<String, Session>,
    /// The session id and the revision of every write so far. Each write of a session must return a new revision.
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

    /// Begins a new case with this name, which the panic messages of the following checks contain.
    pub(super) fn begin(&mut self, name: impl Display) {
        self.case = Case::new("session storage", self.part, name);
    }

    /// Returns a session id that ends with `name`. The id begins with the unique prefix of this context, so no other
    /// context uses this id.
    pub(super) fn id(&self, name: impl Display) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Returns a small session with the id that [`id`](Self::id) returns for `name`.
    pub(super) fn session(&self, name: impl Display) -> Session {
        sample::small(self.id(name))
    }

    /// Waits for a call and returns its value. Panics if the call fails or hangs.
    pub(super) async fn ok<T>(&self, call: impl Future<Output = Result<T, StorageError>>) -> T {
        self.case.ok(self.case.soon(call).await)
    }

    /// Saves a session, then checks the stored session and the list.
    pub(super) async fn save(&mut self, session: &Session) {
        self.ok(self.storage.save(session)).await;
        self.must_hold(session);
        self.check(&session.id).await;
    }

    /// Deletes a session, then checks that the storage no longer contains it.
    pub(super) async fn delete(&mut self, id: &str) {
        self.ok(self.storage.delete(id)).await;
        self.stored.remove(id);
        self.fails(Kind::NotFound, id, self.storage.load(id)).await;
        self.check_list().await;
    }

    /// Records that the storage must contain this session.
    pub(super) fn must_hold(&mut self, session: &Session) {
        self.stored.insert(session.id.clone(), session.clone());
    }

    /// Checks that the storage contains the expected session under `id`, and checks the list.
    pub(super) async fn check(&self, id: &str) {
        let loaded = self.ok(self.storage.load(id)).await;
        same(&self.case, &loaded, self.stored(id));
        self.check_list().await;
    }

    /// Checks that the storage lists exactly the sessions that this test must have stored. Sessions of other tests are
    /// ignored.
    pub(super) async fn check_list(&self) {
        let expected: Vec<_> = self.stored.values().map(Session::summary).collect();
        self.case.equal("what is listed", self.listed().await, expected);
    }

    /// Returns the summaries of the sessions that the storage lists, without the sessions of other tests.
    pub(super) async fn listed(&self) -> Vec<SessionSummary> {
        let mut all = self.ok(self.storage.list()).await;
        all.retain(|summary| summary.id.starts_with(&self.prefix));
        all
    }

    /// Checks that a call fails with an error of this kind that contains the session id `id`.
    pub(super) async fn fails<T: Debug>(
        &self,
        kind: Kind,
        id: &str,
        call: impl Future<Output = Result<T, StorageError>>,
    ) {
        is_error(&self.case, kind, id, self.case.err(self.case.soon(call).await));
    }

    /// Checks all sessions, and then deletes them.
    ///
    /// A dropped save may still write its session after the delete. The delete is therefore repeated until the list is
    /// empty.
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

    /// Returns the session that the storage must contain under `id`.
    pub(super) fn stored(&self, id: &str) -> &Session {
        self.case.some("the session is not stored", self.stored.get(id))
    }
}

impl<S: VersionedSessionStorage> TestContext<'_, S> {
    /// Creates a session, checks the stored session, and returns its revision.
    pub(super) async fn create(&mut self, session: &Session) -> SessionRevision {
        let revision = self.ok(self.storage.create(session)).await;
        self.written("create", session, revision).await
    }

    /// Updates a session, checks the stored session, and returns its revision.
    pub(super) async fn update(
        &mut self,
        session: &Session,
        expected: &SessionRevision,
    ) -> SessionRevision {
        let revision = self.ok(self.storage.update(session, expected)).await;
        self.written("update", session, revision).await
    }

    /// Appends to a session, checks the stored session, and returns its revision.
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
        // The clock of a database may differ from this machine's clock, and the database may truncate the time.
        let is_now = (session.updated_at - begin).num_minutes().abs() <= 10;
        self.case.holds(is_now, format_args!("updated_at is {}", session.updated_at));
        self.written("append", &session, revision).await
    }

    /// Saves a session, checks the stored session, and returns its revision.
    pub(super) async fn save_versioned(&mut self, session: &Session) -> SessionRevision {
        self.save(session).await;
        let revision = self.ok(self.storage.revision(&session.id)).await;
        self.written("save", session, revision).await
    }

    /// Checks the stored session after a write. Also checks that no earlier write returned the same revision. `write`
    /// is the name of the method that wrote.
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

    /// Checks that the storage contains the expected session under `id`, with this revision.
    pub(super) async fn check_versioned(&self, id: &str, expected: &SessionRevision) {
        let (loaded, revision) = self.ok(self.storage.load_versioned(id)).await;
        same(&self.case, &loaded, self.stored(id));
        self.case.equal("the revision loaded", &revision, expected);
        self.case.equal("the revision", &self.ok(self.storage.revision(id)).await, expected);
    }

    /// Checks that a write fails with [`StorageError::Conflict`], and does not change the session.
    pub(super) async fn conflict(
        &self,
        id: &str,
        write: impl Future<Output = Result<SessionRevision, StorageError>>,
    ) {
        self.fails(Kind::Conflict, id, write).await;
        self.check(id).await;
    }
}

/// A variant of [`StorageError`] that contains a session id.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    NotFound,
    Conflict,
    InvalidId,
}

/// Checks that an error is of this kind, and contains the session id `id`.
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
    // The error contains only the beginning of a long invalid id, followed by an ellipsis.
    let is_named = match named.strip_suffix('…') {
        Some(beginning) if kind == Kind::InvalidId => id.starts_with(beginning),
        _ => named == id,
    };
    case.holds(is_named, format_args!("the error names {named:?}"));
}

/// Checks that two sessions are equal, and that the JSON of their messages has the same bytes.
#[track_caller]
pub(super) fn same(case: &Case, actual: &Session, expected: &Session) {
    case.equal("the id", &actual.id, &expected.id);
    case.equal("created_at", actual.created_at, expected.created_at);
    same_content(case, actual, expected);
    case.equal("updated_at", actual.updated_at, expected.updated_at);
}

/// Checks that two sessions have equal states and equal messages. The JSON of the messages must be equal byte by byte.
/// Times are not compared.
#[track_caller]
pub(super) fn same_content(case: &Case, actual: &Session, expected: &Session) {
    case.equal("the number of messages", actual.messages.len(), expected.messages.len());
    for (index, (actual, expected)) in actual.messages.iter().zip(&expected.messages).enumerate() {
        case.equal(&format!("message {index}"), actual, expected);
        // Equal objects may have different orders of keys. Vendors cache prompts by their bytes, so the order must not
        // change.
        let json = |message| case.ok(serde_json::to_string(message));
        case.equal(&format!("the bytes of message {index}"), json(actual), json(expected));
    }
    case.equal("the state", &actual.state, &expected.state);
}
