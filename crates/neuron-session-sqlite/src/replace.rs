//! Writes a whole session, without writing its unchanged messages again ([`Replacement`]).

use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::Connection;
use neuron_types::{Session, SessionRevision, StorageError};

use crate::digest::Digest;
use crate::lost_ids::LostIds;
use crate::messages::{self, Bodies};
use crate::session_row::{self, Content, SessionRow};

type Result<T> = std::result::Result<T, Abort<StorageError>>;

/// A serialised session that replaces the stored session with the same id.
pub(crate) struct Replacement {
    id: String,
    created_at: String,
    updated_at: String,
    state: String,
    bodies: Bodies,
}

/// The state of the storage that a write requires.
pub(crate) enum Before {
    /// There may be a session with this id or not.
    Anything,
    /// There must be no session with this id.
    Nothing,
    /// There must be a session with this id and revision.
    Revision(SessionRevision),
}

impl Replacement {
    /// Serialises a session. Returns an error if a value has no JSON form.
    pub(crate) fn of(session: &Session) -> std::result::Result<Self, StorageError> {
        Ok(Self {
            id: session.id.clone(),
            created_at: session_row::time(session.created_at),
            updated_at: session_row::time(session.updated_at),
            state: session_row::state(&session.state)?,
            bodies: Bodies::of(&session.messages)?,
        })
    }

    /// Writes the session in the current transaction, and returns its new revision. Returns an error if the stored
    /// session does not meet the condition `before`.
    pub(crate) fn write(
        self,
        connection: &Connection,
        lost: &LostIds,
        before: &Before,
    ) -> Result<SessionRevision> {
        let stored = match before {
            Before::Revision(revision) => {
                Some(SessionRow::expect(connection, lost, &self.id, revision)?)
            }
            // A damaged session is an error even here, so it is not overwritten.
            Before::Anything => SessionRow::find(connection, lost, &self.id)?,
            Before::Nothing => match SessionRow::find(connection, lost, &self.id)? {
                Some(_) => return Err(StorageError::Conflict { id: self.id }.into()),
                None => None,
            },
        };
        let digests = self.bodies.digests(Digest::START);
        let kept = match &stored {
            Some(head) => {
                let kept = common(connection, head, &digests)?;
                delete_from(connection, head, kept)?;
                kept
            }
            None => 0,
        };
        let content = Content {
            id: self.id,
            created_at: self.created_at,
            updated_at: self.updated_at,
            message_count: digests.len(),
            messages_digest: digests.last().copied().unwrap_or(Digest::START),
            state: self.state,
        };
        let head = content.write(connection, stored.map(|head| head.key))?;
        self.bodies.insert(connection, head.key, 0, &digests, kept)?;
        Ok(head.revision())
    }
}

/// Returns the number of messages at the start of the session that are already stored unchanged. Finds it by binary
/// search, because an equal digest means that all messages up to its position are equal.
fn common(connection: &Connection, head: &SessionRow, digests: &[Digest]) -> Result<usize> {
    let stored = head.content.message_count;
    if messages::digest_before(connection, head, stored)? != head.content.messages_digest {
        return Err(head.corrupt("its last message does not match its digest"));
    }
    let is_common = |count: usize| -> Result<bool> {
        let digest = count.checked_sub(1).and_then(|last| digests.get(last)).copied();
        let digest = digest.unwrap_or(Digest::START);
        Ok(messages::digest_before(connection, head, count)? == digest)
    };
    let most = stored.min(digests.len());
    if is_common(most)? {
        return Ok(most);
    }
    // Binary search. After the first different message all digests differ.
    let (mut common, mut different) = (0, most);
    while common + 1 < different {
        let middle = common.midpoint(different);
        match is_common(middle)? {
            true => common = middle,
            false => different = middle,
        }
    }
    Ok(common)
}

/// Deletes the messages from a position on. They are read first, so that a damaged session is not overwritten.
fn delete_from(connection: &Connection, head: &SessionRow, position: usize) -> Result<()> {
    let count = head.content.message_count - position;
    if count == 0 {
        return Ok(());
    }
    messages::read(connection, head, position, |_| Ok(()))?;
    let mut delete =
        connection.prepare_cached("DELETE FROM messages WHERE session = ?1 AND position >= ?2")?;
    match delete.execute((head.key, position))? == count {
        true => Ok(()),
        false => Err(head.corrupt("its messages do not match its digest")),
    }
}
