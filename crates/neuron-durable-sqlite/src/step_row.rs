//! The row of a step in the table `steps` ([`StepRow`]).

use chrono::{DateTime, Utc};
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{Connection, Error, Row};
use neuron_types::ToolEffect;
use serde_json::Value;

use crate::JournalError;
use crate::checksum::Checksum;

type Result<T> = std::result::Result<T, Abort<JournalError>>;

/// The row of a step. All times are in milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepRow {
    /// Position of the step in its execution, from 0.
    pub(crate) position: i64,
    /// Kind of the step and its number among the steps of this kind, for example `model/0`.
    pub(crate) key: String,
    /// Name of the model, the tool, the signal or the recorded value. `None` if the step has no name.
    pub(crate) name: Option<String>,
    /// Digest of the arguments of a tool call. `None` if the step is not a tool call.
    pub(crate) digest: Option<String>,
    /// Effect of a tool call, which decides if the call may run again. `None` if the step is not a tool call.
    ///
    /// If a tool changes its effect between two attempts, the more careful effect is stored.
    pub(crate) effect: Option<ToolEffect>,
    /// Idempotency key of a tool call, the same in every attempt. `None` if the step is not a tool call.
    pub(crate) idempotency_key: Option<String>,
    /// Number of attempts so far.
    pub(crate) attempt: i64,
    pub(crate) begun_at: i64,
    /// Deadline of a wait, in milliseconds since 1970. `None` if the step is not a wait, or if the deadline is too late
    /// for a date.
    pub(crate) deadline: Option<i64>,
    /// End of the step, in milliseconds since 1970. `None` if the step has not ended.
    pub(crate) ended_at: Option<i64>,
    /// Tool calls for whose approval the step waits. The text is the JSON of a `PendingApproval` without the
    /// conversation. `None` if the step does not wait for an approval.
    pub(crate) pending: Option<String>,
    /// The result of the step, a `StepRecord` as JSON. `None` if the step has not ended.
    pub(crate) record: Option<String>,
}

const COLUMNS: &str = "position, key, name, digest, effect, idempotency_key, attempt, begun_at, \
                       deadline, ended_at, pending, record, sum";

impl StepRow {
    /// Creates the row of a step that begins now, with its first attempt.
    pub(crate) fn new(position: i64, key: String, begun_at: i64) -> Self {
        Self {
            position,
            key,
            name: None,
            digest: None,
            effect: None,
            idempotency_key: None,
            attempt: 1,
            begun_at,
            deadline: None,
            ended_at: None,
            pending: None,
            record: None,
        }
    }

    /// Returns the row of the same step with its result and the time of its end.
    pub(crate) fn ended(self, record: String, at: i64) -> Self {
        Self { ended_at: Some(at), record: Some(record), pending: None, ..self }
    }

    /// Reads the steps of a run, beginning with the step at this position. Returns an error if a checksum is wrong or a
    /// step is missing.
    pub(crate) fn load(
        connection: &Connection,
        (run, id): (i64, &str),
        from: i64,
    ) -> Result<Vec<Self>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM steps WHERE run = ?1 AND position >= ?2 ORDER BY position"
        );
        let mut select = connection.prepare_cached(&sql)?;
        let mut rows = select.query((run, from))?;
        let mut steps = Vec::new();
        let mut expected = from;
        while let Some(row) = rows.next()? {
            let step = Self::read(row, (run, id))?;
            if step.position != expected {
                let reason = format!("its step {expected} is missing");
                return Err(JournalError::corrupt(id, reason).into());
            }
            expected += 1;
            steps.push(step);
        }
        Ok(steps)
    }

    /// Returns the number of steps of a run, and its last step. The last step is `None` if the run has no steps.
    pub(crate) fn last(
        connection: &Connection,
        (run, id): (i64, &str),
    ) -> Result<(i64, Option<Self>)> {
        let mut select = connection.prepare_cached("SELECT count(*) FROM steps WHERE run = ?1")?;
        let count: i64 = select.query_one([run], |row| row.get(0))?;
        Ok((count, Self::load(connection, (run, id), count.saturating_sub(1))?.pop()))
    }

    /// Returns an error if the index of the table lacks the last steps of the run. The run would otherwise repeat these
    /// steps.
    pub(crate) fn check_end(connection: &Connection, (run, id): (i64, &str)) -> Result<()> {
        // A later step has a greater rowid. Only the next 10,000 rows are searched, because other runs may have written
        // many steps since. A missing step was written soon after the last indexed step.
        let mut select = connection.prepare_cached(
            "SELECT EXISTS (
                 SELECT 1 FROM (
                     SELECT run FROM steps NOT INDEXED
                     WHERE rowid > (SELECT coalesce(max(rowid), 0) FROM steps WHERE run = ?1)
                     ORDER BY rowid LIMIT 10000
                 ) WHERE run = ?1
             )",
        )?;
        match select.query_one([run], |row| row.get(0))? {
            true => {
                Err(JournalError::corrupt(id, "the index of steps does not have all steps").into())
            }
            false => Ok(()),
        }
    }

    /// Reads a row and checks its checksum.
    fn read(row: &Row<'_>, (run, id): (i64, &str)) -> Result<Self> {
        let position: i64 = row.get(0)?;
        let damaged = |what: &str| JournalError::corrupt(id, format!("its step {position} {what}"));
        let effect = match row.get::<_, Option<String>>(4)? {
            None => None,
            Some(text) => {
                let effect = serde_json::from_value(Value::String(text));
                Some(effect.map_err(|_| damaged("has an unknown effect"))?)
            }
        };
        let step = Self {
            position,
            key: row.get(1)?,
            name: row.get(2)?,
            digest: row.get(3)?,
            effect,
            idempotency_key: row.get(5)?,
            attempt: row.get(6)?,
            begun_at: row.get(7)?,
            deadline: row.get(8)?,
            ended_at: row.get(9)?,
            pending: row.get(10)?,
            record: row.get(11)?,
        };
        if row.get::<_, Checksum>(12)? != step.checksum(run) {
            return Err(damaged("is not as written").into());
        }
        if step.ended_at.is_some() != step.record.is_some() {
            return Err(damaged("has ended without a record").into());
        }
        Ok(step)
    }

    /// Inserts the row of a step.
    pub(crate) fn insert(&self, connection: &Connection, run: i64) -> Result<()> {
        self.store(
            connection,
            run,
            "INSERT INTO steps (run, position, key, name, digest, effect, idempotency_key, attempt,
                 begun_at, deadline, ended_at, pending, record, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )
    }

    /// Stores all columns of a step that has begun and not ended. Returns an error if the stored step has ended.
    pub(crate) fn update(&self, connection: &Connection, run: i64) -> Result<()> {
        self.store(
            connection,
            run,
            "UPDATE steps SET key = ?3, name = ?4, digest = ?5, effect = ?6, idempotency_key = ?7,
                 attempt = ?8, begun_at = ?9, deadline = ?10, ended_at = ?11, pending = ?12,
                 record = ?13, sum = ?14
             WHERE run = ?1 AND position = ?2 AND ended_at IS NULL",
        )
    }

    /// Deletes the row of the step.
    pub(crate) fn delete(&self, connection: &Connection, run: i64) -> Result<()> {
        let sql = "DELETE FROM steps WHERE run = ?1 AND position = ?2";
        connection.execute(sql, (run, self.position))?;
        Ok(())
    }

    /// Runs a statement that must change exactly one row.
    fn store(&self, connection: &Connection, run: i64, sql: &str) -> Result<()> {
        let changed = connection.prepare_cached(sql)?.execute((
            run,
            self.position,
            &self.key,
            &self.name,
            &self.digest,
            self.effect.map(effect_name),
            &self.idempotency_key,
            self.attempt,
            self.begun_at,
            self.deadline,
            self.ended_at,
            &self.pending,
            &self.record,
            self.checksum(run),
        ))?;
        match changed {
            1 => Ok(()),
            // A step that has ended is never overwritten.
            changed => Err(Error::StatementChangedRows(changed).into()),
        }
    }

    /// Returns the checksum of the step's columns. It covers the run, so a step of another run is detected.
    fn checksum(&self, run: i64) -> Checksum {
        let numbers = [
            Some(run),
            Some(self.position),
            Some(self.attempt),
            Some(self.begun_at),
            self.deadline,
            self.ended_at,
        ];
        let texts = [
            Some(self.key.as_str()),
            self.name.as_deref(),
            self.digest.as_deref(),
            self.effect.map(effect_name),
            self.idempotency_key.as_deref(),
            self.pending.as_deref(),
            self.record.as_deref(),
        ];
        Checksum::of(&numbers, &texts)
    }
}

/// Returns the serde name of an effect. Returns the name of the most careful effect for an effect that this release
/// does not know.
pub(crate) fn effect_name(effect: ToolEffect) -> &'static str {
    match effect {
        ToolEffect::Pure => "pure",
        ToolEffect::Idempotent => "idempotent",
        _ => "at_most_once",
    }
}

/// Converts a time to its stored form, in milliseconds since 1970.
pub(crate) fn millis(time: DateTime<Utc>) -> i64 {
    time.timestamp_millis()
}

/// Converts a stored time. A number that is not a valid date becomes the beginning of 1970.
pub(crate) fn time(millis: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(millis).unwrap_or_default()
}
