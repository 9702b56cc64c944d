//! Reads and writes the row of a session, which contains everything except the messages ([`SessionRow`]).

use chrono::{DateTime, Utc};
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{self, Connection, OptionalExtension as _, Row};
use neuron_types::{
    Session, SessionRevision, SessionState, SessionSummary, StorageError, stored_json,
};

use crate::digest::Digest;
use crate::lost_ids::LostIds;

/// Reason of the error for a session whose id is missing in a damaged index.
pub(crate) const NOT_INDEXED: &str =
    "the index of ids does not have it; rebuild the index by the statement REINDEX sessions";

type Result<T> = std::result::Result<T, Abort<StorageError>>;

/// The row of a session in the table `sessions`.
pub(crate) struct SessionRow {
    /// Primary key of the row, which the messages reference.
    pub(crate) key: i64,
    pub(crate) content: Content,
    revision: String,
    /// The session and the database, for errors.
    location: String,
}

/// The columns of a session's row, without its key and its revision.
pub(crate) struct Content {
    pub(crate) id: String,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) message_count: usize,
    /// Digest of all messages. It equals the digest that is stored with the last message.
    pub(crate) messages_digest: Digest,
    pub(crate) state: String,
}

impl SessionRow {
    /// Reads a session's row. Returns `None` if the session does not exist. Returns an error if the row or the index of
    /// ids is damaged.
    pub(crate) fn find(connection: &Connection, lost: &LostIds, id: &str) -> Result<Option<Self>> {
        let head = Self::look_up(connection, id)?;
        match head.is_none() && lost.contains(connection, id)? {
            true => Err(corrupt(connection, id, NOT_INDEXED)),
            false => Ok(head),
        }
    }

    /// Finds a session's row by the index of ids. Returns `None` if the index does not contain the id. Returns an error
    /// if the row is damaged.
    pub(crate) fn look_up(connection: &Connection, id: &str) -> Result<Option<Self>> {
        let mut select = connection.prepare_cached("SELECT * FROM sessions WHERE id = ?1")?;
        let found = select.query_row([id], |row| Self::read(row, location(connection, id)));
        let found = found.optional().map_err(|error| match error.sqlite_error() {
            Some(_) => error.into(),
            // An error without an SQLite code means that a column has a value that this crate never writes.
            None => corrupt(connection, id, &error.to_string()),
        });
        let Some((head, digest)) = found? else {
            return Ok(None);
        };
        // A damaged index may lead to the row of another session.
        match head.content.id == id && digest == head.content.digest(&head.revision) {
            true => Ok(Some(head)),
            false => Err(head.corrupt("its row is not as written")),
        }
    }

    /// Reads a session's row. Returns [`StorageError::NotFound`] if there is no such session.
    pub(crate) fn get(connection: &Connection, lost: &LostIds, id: &str) -> Result<Self> {
        let head = Self::find(connection, lost, id)?;
        head.ok_or_else(|| StorageError::NotFound(id.to_owned()).into())
    }

    /// Reads a session's row. Returns [`StorageError::NotFound`] if there is no such session, and
    /// [`StorageError::Conflict`] if it has another revision.
    pub(crate) fn expect(
        connection: &Connection,
        lost: &LostIds,
        id: &str,
        revision: &SessionRevision,
    ) -> Result<Self> {
        let head = Self::get(connection, lost, id)?;
        match head.revision == revision.as_str() {
            true => Ok(head),
            false => Err(StorageError::Conflict { id: id.to_owned() }.into()),
        }
    }

    /// Decodes a row and its digest. The digest is not verified.
    fn read(row: &Row<'_>, location: String) -> rusqlite::Result<(Self, Digest)> {
        let content = Content {
            id: row.get("id")?,
            created_at: row.get("created_at")?,
            updated_at: row.get("updated_at")?,
            message_count: row.get("message_count")?,
            messages_digest: row.get("messages_digest")?,
            state: row.get("state")?,
        };
        let head = Self { key: row.get("key")?, content, revision: row.get("revision")?, location };
        Ok((head, row.get("digest")?))
    }

    pub(crate) fn revision(&self) -> SessionRevision {
        SessionRevision::new(self.revision.as_str())
    }

    /// Converts the row into a summary of the session.
    pub(crate) fn summary(self) -> Result<SessionSummary> {
        Ok(SessionSummary {
            message_count: self.content.message_count,
            created_at: self.time(&self.content.created_at)?,
            updated_at: self.time(&self.content.updated_at)?,
            id: self.content.id,
            damage: None,
        })
    }

    /// Converts the row and the messages into a session and its revision.
    pub(crate) fn session(
        self,
        messages: Vec<neuron_types::Message>,
    ) -> Result<(Session, SessionRevision)> {
        let revision = self.revision();
        let session = Session {
            messages,
            state: self.state()?,
            created_at: self.time(&self.content.created_at)?,
            updated_at: self.time(&self.content.updated_at)?,
            id: self.content.id,
        };
        Ok((session, revision))
    }

    fn time(&self, text: &str) -> Result<DateTime<Utc>> {
        text.parse().map_err(|error| self.corrupt(format!("the time {text:?}: {error}")))
    }

    fn state(&self) -> Result<SessionState> {
        stored_json::read(self.content.state.as_bytes())
            .map_err(|error| self.corrupt(format!("its state: {error}")))
    }

    /// Returns the error that this session is damaged, for the given reason.
    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> Abort<StorageError> {
        StorageError::Corrupt { location: self.location.clone(), reason: reason.into() }.into()
    }
}

impl Content {
    /// Writes the row with a new revision. Replaces the row with the key `key`, or inserts a new row if `key` is
    /// `None`.
    pub(crate) fn write(self, connection: &Connection, key: Option<i64>) -> Result<SessionRow> {
        // The revision is random, so that it never occurs again, neither after a deletion nor after a backup was
        // restored.
        let mut revision = connection.prepare_cached("SELECT lower(hex(randomblob(16)))")?;
        let revision: String = revision.query_row([], |row| row.get(0))?;
        let mut write = connection.prepare_cached(
            "INSERT INTO sessions (key, id, revision, created_at, updated_at, message_count,
                messages_digest, digest, state)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
            ON CONFLICT (key) DO UPDATE SET revision = excluded.revision,
                created_at = excluded.created_at, updated_at = excluded.updated_at,
                message_count = excluded.message_count, messages_digest = excluded.messages_digest,
                digest = excluded.digest, state = excluded.state
            RETURNING key",
        )?;
        let values = (
            key,
            &self.id,
            &revision,
            &self.created_at,
            &self.updated_at,
            self.message_count,
            self.messages_digest,
            self.digest(&revision),
            &self.state,
        );
        let key = write.query_row(values, |row| row.get(0))?;
        let location = location(connection, &self.id);
        Ok(SessionRow { key, content: self, revision, location })
    }

    /// Returns the digest of the row. The fields are joined with line feeds. Only the last field can contain a line
    /// feed, so different rows always give different texts.
    fn digest(&self, revision: &str) -> Digest {
        let Self { id, created_at, updated_at, message_count, messages_digest, state } = self;
        let row = format!("{id}\n{revision}\n{created_at}\n{updated_at}\n{message_count}\n{state}");
        messages_digest.then(row.as_bytes())
    }
}

/// Formats a time for the database.
pub(crate) fn time(time: DateTime<Utc>) -> String {
    format!("{time:?}")
}

/// Serialises a state for the database.
pub(crate) fn state(state: &SessionState) -> std::result::Result<String, StorageError> {
    Ok(stored_json::to_string(state)?)
}

/// Returns the error for a damaged session that has no readable row.
pub(crate) fn corrupt(connection: &Connection, id: &str, reason: &str) -> Abort<StorageError> {
    StorageError::Corrupt { location: location(connection, id), reason: reason.into() }.into()
}

/// Returns the location of a session for errors, with its id and its database.
fn location(connection: &Connection, id: &str) -> String {
    format!("session {id:?} in {}", connection.path().unwrap_or(":memory:"))
}
