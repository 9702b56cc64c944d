//! Loads and lists sessions.

use std::path::Path;

use neuron_sqlite::rusqlite::Connection;
use neuron_sqlite::{Abort, SqliteError};
use neuron_types::{Session, SessionRevision, SessionSummary, StorageError, stored_json};

use crate::lost_ids::{self, LostIds};
use crate::messages;
use crate::session_row::{self, SessionRow};

type Result<T> = std::result::Result<T, Abort<StorageError>>;

/// Reads a session with its messages. Returns an error if there is no such session, or if it is damaged.
pub(crate) fn load(
    connection: &Connection,
    lost: &LostIds,
    id: &str,
) -> Result<(Session, SessionRevision)> {
    let head = SessionRow::get(connection, lost, id)?;
    let messages = messages::read(connection, &head, 0, stored_json::read)?;
    head.session(messages)
}

/// Returns the summaries of all sessions, sorted by id. A damaged session is included with its damage.
pub(crate) fn list(connection: &Connection) -> Result<Vec<SessionSummary>> {
    // Reads only the index of ids, so that one damaged row does not hide the other sessions. The cast allows ids that
    // are not UTF-8.
    let mut select = connection.prepare_cached(
        "SELECT CAST(id AS BLOB) FROM sessions INDEXED BY sqlite_autoindex_sessions_1 ORDER BY id",
    )?;
    let mut ids = select.query([])?;
    let mut summaries = Vec::new();
    while let Some(row) = ids.next()? {
        let id = String::from_utf8_lossy(row.get_ref(0)?.as_bytes().unwrap_or_default());
        summaries.push(summary(connection, &id));
    }
    let lost = match lost_ids::find(connection) {
        Ok(lost) => lost,
        // The unreadable rows are already in the list as damaged sessions.
        Err(_) if summaries.iter().any(|summary| summary.damage.is_some()) => return Ok(summaries),
        Err(error) => return Err(error.into()),
    };
    if !lost.is_empty() {
        let damage = |id: &String| {
            let damage = session_row::corrupt(connection, id, session_row::NOT_INDEXED);
            SessionSummary::damaged(id, &into_error(connection, damage))
        };
        summaries.extend(lost.iter().map(damage));
        summaries.sort_by(|one, other| one.id.cmp(&other.id));
    }
    Ok(summaries)
}

/// Returns the summary of a session that is in the index of ids. If the session's row is damaged or missing, the
/// summary contains this damage.
fn summary(connection: &Connection, id: &str) -> SessionSummary {
    let found = SessionRow::look_up(connection, id);
    let missing = || session_row::corrupt(connection, id, "its row cannot be found");
    let summary = found.and_then(|head| head.ok_or_else(missing)).and_then(SessionRow::summary);
    summary.unwrap_or_else(|damage| SessionSummary::damaged(id, &into_error(connection, damage)))
}

/// Converts the reason for an abort into a [`StorageError`].
fn into_error(connection: &Connection, abort: Abort<StorageError>) -> StorageError {
    match abort {
        Abort::Own(error) => error,
        Abort::Sqlite(error) => {
            SqliteError::new(Path::new(connection.path().unwrap_or(":memory:")), error).into()
        }
    }
}
