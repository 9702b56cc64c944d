//! Reading sessions.

use std::path::Path;

use neuron_sqlite::rusqlite::Connection;
use neuron_sqlite::{Abort, SqliteError};
use neuron_types::{Session, SessionRevision, SessionSummary, StorageError, stored_json};

use crate::head::{self, Head};
use crate::lost_ids::{self, LostIds};
use crate::messages;

type Result<T> = std::result::Result<T, Abort<StorageError>>;

/// Reads a session, and checks that it is unchanged.
pub(crate) fn load(
    connection: &Connection,
    lost: &LostIds,
    id: &str,
) -> Result<(Session, SessionRevision)> {
    let head = Head::get(connection, lost, id)?;
    let messages = messages::read(connection, &head, 0, stored_json::read)?;
    head.session(messages)
}

/// Describes all sessions, in the order of their ids.
pub(crate) fn list(connection: &Connection) -> Result<Vec<SessionSummary>> {
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
        // The rows that cannot be read have been met above.
        Err(_) if summaries.iter().any(|summary| summary.damage.is_some()) => return Ok(summaries),
        Err(error) => return Err(error.into()),
    };
    if !lost.is_empty() {
        let damage = |id: &String| {
            let damage = head::corrupt(connection, id, head::NOT_INDEXED);
            SessionSummary::damaged(id, &into_error(connection, damage))
        };
        summaries.extend(lost.iter().map(damage));
        summaries.sort_by(|one, other| one.id.cmp(&other.id));
    }
    Ok(summaries)
}

/// Describes a session of the index of ids.
fn summary(connection: &Connection, id: &str) -> SessionSummary {
    let found = Head::look_up(connection, id);
    let missing = || head::corrupt(connection, id, "its row cannot be found");
    let summary = found.and_then(|head| head.ok_or_else(missing)).and_then(Head::summary);
    summary.unwrap_or_else(|damage| SessionSummary::damaged(id, &into_error(connection, damage)))
}

fn into_error(connection: &Connection, abort: Abort<StorageError>) -> StorageError {
    match abort {
        Abort::Own(error) => error,
        Abort::Sqlite(error) => {
            SqliteError::new(Path::new(connection.path().unwrap_or(":memory:")), error).into()
        }
    }
}
