//! Appends messages to a session ([`Addition`]). An append reads only the session's row, and not its messages.

use chrono::Utc;
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::Connection;
use neuron_types::{Message, SessionRevision, SessionState, StorageError};

use crate::lost_ids::LostIds;
use crate::messages::Bodies;
use crate::session_row::{self, Content, SessionRow};

/// Serialised messages, and an optional new state, that are appended to a session.
pub(crate) struct Addition {
    bodies: Bodies,
    state: Option<String>,
}

impl Addition {
    /// Serialises messages and a state. `None` keeps the stored state.
    pub(crate) fn of(
        messages: &[Message],
        state: Option<&SessionState>,
    ) -> Result<Self, StorageError> {
        Ok(Self {
            bodies: Bodies::of(messages)?,
            state: state.map(session_row::state).transpose()?,
        })
    }

    /// Appends the messages inside a transaction. Returns an error if the session's revision is not `expected`.
    pub(crate) fn write(
        self,
        connection: &Connection,
        lost: &LostIds,
        id: &str,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, Abort<StorageError>> {
        let SessionRow { key, content, .. } = SessionRow::expect(connection, lost, id, expected)?;
        let start = content.message_count;
        let digests = self.bodies.digests(content.messages_digest);
        let end = start + digests.len();
        self.bodies.insert(connection, key, start, &digests, 0)?;
        let content = Content {
            updated_at: session_row::time(Utc::now()),
            message_count: end,
            messages_digest: digests.last().copied().unwrap_or(content.messages_digest),
            state: self.state.unwrap_or(content.state),
            ..content
        };
        Ok(content.write(connection, Some(key))?.revision())
    }
}
