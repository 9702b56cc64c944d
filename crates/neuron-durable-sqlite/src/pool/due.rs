//! The runs of a database that a pool can drive.

use chrono::Utc;
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{Connection, Result as SqlResult, Row};

use crate::JournalError;
use crate::step_row::millis;

/// A run that has not ended.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) id: String,
    pub(super) has_start: bool,
    pub(super) moment: Moment,
}

/// The moment at which a run can go on.
#[derive(Debug)]
pub(super) enum Moment {
    Now,
    /// Milliseconds since 1970.
    At(i64),
    /// When its signal comes.
    Signal,
}

/// Lists the runs that have not ended and know what they start from, the oldest first. Checksums are compared when a run is
/// opened: a damaged run hides no other.
pub(super) fn due(connection: &Connection) -> Result<Vec<Due>, Abort<JournalError>> {
    let mut select = connection.prepare_cached(
        "SELECT run.id, run.start IS NOT NULL, step.key, step.deadline,
                EXISTS (SELECT 1 FROM signals AS sent WHERE sent.run = run.key AND sent.name = step.name)
         FROM runs AS run LEFT JOIN steps AS step
             ON step.run = run.key AND step.ended_at IS NULL
             AND step.position = (SELECT max(position) FROM steps AS last WHERE last.run = run.key)
         WHERE run.status IN ('running', 'stalled') AND instr(run.id, '/') = 0
             AND (run.start IS NOT NULL OR run.input IS NOT NULL)
         ORDER BY run.key",
    )?;
    let now = millis(Utc::now());
    let mut rows = select.query([])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        runs.extend(read(row, now).ok());
    }
    Ok(runs)
}

fn read(row: &Row<'_>, now: i64) -> SqlResult<Due> {
    let step: Option<String> = row.get(2)?;
    let deadline: Option<i64> = row.get(3)?;
    let has_signal: bool = row.get(4)?;
    let kind = step.as_deref().and_then(|key| key.split('/').next());
    let moment = match (kind, deadline) {
        (Some("signal"), _) if has_signal => Moment::Now,
        (Some("signal" | "sleep"), Some(deadline)) if deadline > now => Moment::At(deadline),
        (Some("signal" | "sleep"), None) => Moment::Signal,
        _ => Moment::Now,
    };
    Ok(Due { id: row.get(0)?, has_start: row.get(1)?, moment })
}
