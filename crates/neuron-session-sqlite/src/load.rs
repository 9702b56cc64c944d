//! Reading sessions.

use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite;
use neuron_sqlite::rusqlite::{Connection, Row, types::Type};
use neuron_types::{Session, SessionRevision, SessionSummary, StorageError, stored_json};

use crate::head::Head;
use crate::messages;

type Result<T> = std::result::Result<T, Abort<StorageError>>;

/// Reads a session, and sees that it is what was written.
pub(crate) fn load(connection: &Connection, id: &str) -> Result<(Session, SessionRevision)> {
    let head = Head::get(connection, id)?;
    let messages = messages::read(connection, &head, 0, stored_json::read)?;
    head.session(messages)
}

/// Describes all sessions, in the order of their ids.
pub(crate) fn list(connection: &Connection) -> Result<Vec<SessionSummary>> {
    let mut select = connection.prepare_cached(
        "SELECT id, message_count, created_at, updated_at FROM sessions ORDER BY id",
    )?;
    let summaries = select.query_map([], summary)?.collect::<rusqlite::Result<_>>()?;
    Ok(summaries)
}

fn summary(row: &Row<'_>) -> rusqlite::Result<SessionSummary> {
    let time = |column: usize| {
        let text: String = row.get(column)?;
        text.parse().map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
        })
    };
    Ok(SessionSummary {
        id: row.get(0)?,
        message_count: row.get(1)?,
        created_at: time(2)?,
        updated_at: time(3)?,
    })
}
