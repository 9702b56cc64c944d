//! Finds the runs of a database that a pool can drive ([`due`]).

use chrono::Utc;
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{Connection, Result as SqlResult, Row};

use crate::JournalError;
use crate::step_row::millis;

/// A run that has not ended.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) id: String,
    /// Set if the run has a stored [`Start`](neuron_types::Start) for its agent. If it is not set, the agent starts
    /// from the stored input of the run.
    pub(super) has_start: bool,
    pub(super) is_stalled: bool,
    /// Time of the last change of the run, in milliseconds since 1970. The run changes when it ends, stalls, continues
    /// as new or is [revived](crate::SqliteRuns::revive).
    pub(super) changed_at: i64,
    pub(super) moment: Moment,
}

/// The moment at which a run can continue.
#[derive(Debug)]
pub(super) enum Moment {
    Now,
    /// The deadline of the run's wait, in milliseconds since 1970.
    At(i64),
    /// The arrival of a signal, for a wait without a deadline.
    Signal,
}

const DUE: &str = "
    SELECT run.id, run.start IS NOT NULL, run.status = 'stalled', run.changed_at, step.key, step.deadline,
        EXISTS (SELECT 1 FROM signals AS sent WHERE sent.run = run.key AND sent.name = step.name)
    FROM runs AS run INDEXED BY unfinished_runs LEFT JOIN steps AS step
        ON step.run = run.key AND step.ended_at IS NULL
        AND step.position = (SELECT max(position) FROM steps AS last WHERE last.run = run.key)
    WHERE run.status IN ('running', 'stalled') AND instr(run.id, '/') = 0
        AND (run.start IS NOT NULL OR run.input IS NOT NULL)
    ORDER BY run.key";

/// Lists the runs that have not ended and have a start or an input, the oldest first. Checksums are not checked, so a
/// damaged run does not prevent the listing of other runs.
pub(super) fn due(connection: &Connection) -> Result<Vec<Due>, Abort<JournalError>> {
    let mut select = connection.prepare_cached(DUE)?;
    let now = millis(Utc::now());
    let mut rows = select.query([])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        runs.extend(read(row, now).ok());
    }
    Ok(runs)
}

/// Reads a row of [`DUE`] and determines the moment at which the run can continue. `now` is in milliseconds since 1970.
fn read(row: &Row<'_>, now: i64) -> SqlResult<Due> {
    let is_stalled: bool = row.get(2)?;
    let step: Option<String> = row.get(4)?;
    let deadline: Option<i64> = row.get(5)?;
    let has_signal: bool = row.get(6)?;
    let kind = step.as_deref().and_then(|key| key.split('/').next());
    let moment = match (kind, deadline) {
        // The change of the agent may have been undone meanwhile. If the run was waiting, it continues to wait.
        _ if is_stalled => Moment::Now,
        (Some("signal"), _) if has_signal => Moment::Now,
        (Some("signal" | "sleep"), Some(deadline)) if deadline > now => Moment::At(deadline),
        (Some("signal" | "sleep"), None) => Moment::Signal,
        _ => Moment::Now,
    };
    let (id, has_start, changed_at) = (row.get(0)?, row.get(1)?, row.get(3)?);
    Ok(Due { id, has_start, is_stalled, changed_at, moment })
}

#[cfg(test)]
mod tests {
    use crate::schema::RUNS;

    use super::*;

    #[test]
    fn query_scans_only_the_index_of_unfinished_runs() {
        let connection = Connection::open_in_memory().unwrap();
        RUNS.migrations.iter().for_each(|sql| connection.execute_batch(sql).unwrap());
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {DUE}")).unwrap();
        let plan = explain.query_map([], |row| row.get::<_, String>(3)).unwrap();
        let plan: Vec<String> = plan.collect::<SqlResult<_>>().unwrap();
        assert!(plan[0].starts_with("SCAN run USING INDEX unfinished_runs"), "{plan:?}");
        assert!(plan.iter().all(|line| !line.contains("TEMP B-TREE")), "{plan:?}");
    }
}
