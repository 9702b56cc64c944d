//! Where a part tries a storage: its sessions, and how they are compared.

use std::fmt::Display;

use neuron_types::{Session, SessionStorage, SessionSummary, StorageError};

use super::sample;
use crate::case::Case;
use crate::random::unique;

/// A storage, and what the ids of a part begin with.
pub(super) struct TestContext<'s, S> {
    part: &'static str,
    pub(super) storage: &'s S,
    prefix: String,
}

impl<'s, S: SessionStorage> TestContext<'s, S> {
    pub(super) fn new(part: &'static str, storage: &'s S) -> Self {
        let prefix = format!("conformance-{:016x}-", unique());
        Self { part, storage, prefix }
    }

    pub(super) fn case(&self, name: impl Display) -> Case {
        Case::new("session storage", self.part, name)
    }

    /// An id that nobody else uses.
    pub(super) fn id(&self, name: impl Display) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A small session that nobody else uses.
    pub(super) fn session(&self, name: impl Display) -> Session {
        sample::small(self.id(name))
    }

    pub(super) async fn save(&self, case: &Case, session: &Session) {
        case.ok(case.soon(self.storage.save(session)).await);
    }

    /// Checks that a session is stored as it should be.
    pub(super) async fn stored(&self, case: &Case, expected: &Session) {
        let loaded = case.ok(case.soon(self.storage.load(&expected.id)).await);
        same(case, &loaded, expected);
    }

    /// Checks that nothing is stored under an id.
    pub(super) async fn absent(&self, case: &Case, id: &str) {
        let error = case.err(case.soon(self.storage.load(id)).await);
        not_found(case, &error, id);
    }

    /// The summaries of this part's sessions.
    pub(super) async fn listed(&self, case: &Case) -> Vec<SessionSummary> {
        let all = case.ok(case.soon(self.storage.list()).await);
        all.into_iter().filter(|summary| summary.id.starts_with(&self.prefix)).collect()
    }

    /// Deletes this part's sessions. A save that was dropped may still be under way: what it leaves is deleted
    /// when it is there.
    pub(super) async fn finish(self) {
        let case = self.case("deleting its sessions");
        let mut left = self.listed(&case).await;
        for _ in 0..100 {
            if left.is_empty() {
                break;
            }
            for summary in left {
                match case.soon(self.storage.delete(&summary.id)).await {
                    Ok(()) | Err(StorageError::NotFound(_)) => {}
                    Err(error) => case.fail(format_args!("failed: {error} ({error:?})")),
                }
            }
            left = self.listed(&case).await;
        }
        let left: Vec<String> = left.into_iter().map(|summary| summary.id).collect();
        case.equal("the sessions left", left, Vec::<String>::new());
    }
}

/// Checks that two sessions are one, to the bytes of their messages.
#[track_caller]
pub(super) fn same(case: &Case, actual: &Session, expected: &Session) {
    case.equal("the id", &actual.id, &expected.id);
    case.equal("created_at", actual.created_at, expected.created_at);
    case.equal("updated_at", actual.updated_at, expected.updated_at);
    same_content(case, actual, expected);
}

/// Checks that two sessions have the same messages and state.
#[track_caller]
pub(super) fn same_content(case: &Case, actual: &Session, expected: &Session) {
    case.equal("the number of messages", actual.messages.len(), expected.messages.len());
    for (index, (actual, expected)) in actual.messages.iter().zip(&expected.messages).enumerate() {
        case.equal(&format!("message {index}"), actual, expected);
        // Equal objects may differ in the order of their keys, and that changes what providers cache.
        let json = |message| case.ok(serde_json::to_string(message));
        case.equal(&format!("the bytes of message {index}"), json(actual), json(expected));
    }
    case.equal("the state", &actual.state, &expected.state);
}

#[track_caller]
pub(super) fn not_found(case: &Case, error: &StorageError, id: &str) {
    match error {
        StorageError::NotFound(named) => case.equal("the id in NotFound", named.as_str(), id),
        other => case.fail(format_args!("failed with {other:?} and not with NotFound")),
    }
}

#[track_caller]
pub(super) fn conflict(case: &Case, error: &StorageError, id: &str) {
    match error {
        StorageError::Conflict { id: named } => {
            case.equal("the id in Conflict", named.as_str(), id);
        }
        other => case.fail(format_args!("failed with {other:?} and not with Conflict")),
    }
}
