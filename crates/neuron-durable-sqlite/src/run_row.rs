//! The row of a run in the table `runs` ([`RunRow`]).

use neuron_durable::RunStatus;
use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{Connection, OptionalExtension as _, Row};
use neuron_types::stored_json;
use serde_json::Value;

use crate::JournalError;
use crate::checksum::Checksum;

type Result<T> = std::result::Result<T, Abort<JournalError>>;

/// A row of the table `runs`. It describes a run, or the nested journal of an agent inside a tool call.
///
/// All times are in milliseconds since 1970.
#[derive(Debug, Clone)]
pub(crate) struct RunRow {
    /// Key of the row. Zero until the row is inserted.
    pub(crate) key: i64,
    /// Id of the run or of the nested journal. The id of a run never contains a slash. The id of a nested journal
    /// consists of the id of its parent journal, a slash, and the key of the tool call's step.
    pub(crate) id: String,
    pub(crate) status: RunStatus,
    pub(crate) created_at: i64,
    /// Time, in milliseconds since 1970, at which the run last ended, stalled, continued as new or was
    /// [revived](crate::SqliteRuns::revive). Without such an event it is the time of the run's creation.
    pub(crate) changed_at: i64,
    /// Number that is incremented when the run is opened, [retried](crate::SqliteRuns::retry) or
    /// [revived](crate::SqliteRuns::revive). A context of the run stops writing when this number has changed since the
    /// context opened the run.
    pub(crate) epoch: i64,
    /// Number of times that the run continued as new.
    pub(crate) execution: i64,
    /// Time at which the current execution began, in milliseconds since 1970.
    pub(crate) started_at: i64,
    /// Number of steps in all previous executions.
    pub(crate) earlier_steps: i64,
    /// The value that [`RunBuilder::input`](crate::RunBuilder::input) stored with the run, as JSON. `None` if the run
    /// was created without an input.
    pub(crate) input: Option<String>,
    /// The start of the current execution, a `Start` as JSON. `None` until the run is started or submitted.
    pub(crate) start: Option<String>,
    /// Outcome of the run, a `RunOutcome` as JSON. `None` if the run has not ended.
    pub(crate) outcome: Option<String>,
    /// Version of the agent to which the run is pinned. `None` if the run is not pinned.
    pub(crate) agent_version: Option<String>,
    /// Checksum of the start of the first execution. `None` as long as the run has no start.
    first_start: Option<Checksum>,
}

const COLUMNS: &str = "key, id, status, created_at, changed_at, epoch, execution, started_at, \
                       earlier_steps, input, start, outcome, sum, agent_version, first_start";

impl RunRow {
    /// Creates the row of a new run, which is not stored yet.
    pub(crate) fn new(id: String, input: Option<String>, now: i64) -> Self {
        Self {
            key: 0,
            id,
            status: RunStatus::Running,
            created_at: now,
            changed_at: now,
            epoch: 0,
            execution: 0,
            started_at: now,
            earlier_steps: 0,
            input,
            start: None,
            outcome: None,
            agent_version: None,
            first_start: None,
        }
    }

    /// Sets the start of the first execution, a `Start` as JSON.
    pub(crate) fn set_first_start(&mut self, start: String) {
        self.first_start = Some(checksum_of(&start));
        self.start = Some(start);
    }

    /// Sets the start of a new execution, a `Start` as JSON.
    pub(crate) fn set_next_start(&mut self, start: String) {
        self.execution += 1;
        self.start = Some(start);
    }

    /// Returns `true` if the run can be submitted with this start, a `Start` as JSON, and this input. It has none yet, or
    /// it has the same ones, because the call is repeated.
    pub(crate) fn fits(&self, start: &str, input: Option<&str>) -> bool {
        let begun = self.first_start.is_none_or(|first| first == checksum_of(start));
        let has_nothing = self.start.is_none() && self.input.is_none();
        let is_same =
            |input: &str| self.input.as_deref().map(checksum_of) == Some(checksum_of(input));
        begun && (has_nothing || input.is_none_or(is_same))
    }

    /// Reads a run by its id and checks its checksum. Returns `None` if the run does not exist.
    pub(crate) fn find(connection: &Connection, id: &str) -> Result<Option<Self>> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE id = ?1");
        let mut select = connection.prepare_cached(&sql)?;
        let found = select.query_row([id], |row| Ok(Self::read(row))).optional()?;
        if let Some(run) = found.transpose()? {
            return Ok(Some(run));
        }
        // If a damaged index has lost the run, it would be created again and repeat all its effects. So the table is
        // searched without the index too.
        let mut lost = connection
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM runs NOT INDEXED WHERE id = ?1)")?;
        match lost.query_one([id], |row| row.get(0))? {
            true => Err(JournalError::corrupt(id, "the index of runs does not have it").into()),
            false => Ok(None),
        }
    }

    /// Reads a run by its id as [`find`](Self::find) does. Returns [`JournalError::NotFound`] if the run does not
    /// exist.
    pub(crate) fn get(connection: &Connection, id: &str) -> Result<Self> {
        let found = Self::find(connection, id)?;
        Ok(found.ok_or_else(|| JournalError::NotFound { id: id.into() })?)
    }

    /// Reads all runs, the oldest first, without the nested journals of agents inside tool calls. A damaged run is an
    /// `Err` in the list.
    pub(crate) fn all(connection: &Connection) -> Result<Vec<Result<Self>>> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE instr(id, '/') = 0 ORDER BY key");
        let mut select = connection.prepare_cached(&sql)?;
        let mut rows = select.query([])?;
        let mut runs = Vec::new();
        while let Some(row) = rows.next()? {
            runs.push(Self::read(row));
        }
        Ok(runs)
    }

    /// Deletes the nested journals of a run, which belong to agents inside its tool calls.
    pub(crate) fn delete_nested(connection: &Connection, key: i64) -> Result<()> {
        // The ids of nested journals start with the run's id and a slash. `0` is the character after `/`.
        connection.execute(
            "WITH run AS (SELECT id FROM runs WHERE key = ?1)
             DELETE FROM runs WHERE id > (SELECT id FROM run) || '/' AND id < (SELECT id FROM run) || '0'",
            [key],
        )?;
        Ok(())
    }

    /// Reads a row. A column of a wrong type is reported as damage of the run.
    fn read(row: &Row<'_>) -> Result<Self> {
        let run = Self::columns(row);
        Ok(run.map_err(|error| match error {
            // A column has another type than expected, or its text is not valid UTF-8.
            Abort::Own(error) => error,
            Abort::Sqlite(error) => {
                let id = row.get_ref(1).ok().and_then(|id| id.as_bytes().ok()).unwrap_or_default();
                JournalError::corrupt(&String::from_utf8_lossy(id), format!("its row: {error}"))
            }
        })?)
    }

    /// Reads the columns of a row, and checks its checksum.
    fn columns(row: &Row<'_>) -> Result<Self> {
        let status: String = row.get(2)?;
        let id: String = row.get(1)?;
        let Some(status) = status_of(&status) else {
            return Err(JournalError::corrupt(&id, format!("its status is {status:?}")).into());
        };
        let run = Self {
            key: row.get(0)?,
            id,
            status,
            created_at: row.get(3)?,
            changed_at: row.get(4)?,
            epoch: row.get(5)?,
            execution: row.get(6)?,
            started_at: row.get(7)?,
            earlier_steps: row.get(8)?,
            input: row.get(9)?,
            start: row.get(10)?,
            outcome: row.get(11)?,
            agent_version: row.get(13)?,
            first_start: row.get(14)?,
        };
        match row.get::<_, Checksum>(12)? == run.checksum() {
            true => Ok(run),
            false => Err(JournalError::corrupt(&run.id, "its row is not as written").into()),
        }
    }

    /// Sets the run's status to running, and removes its outcome. Also increments the epoch, so that an earlier context
    /// of the run cannot write any more.
    pub(crate) fn reopen(&mut self) {
        self.status = RunStatus::Running;
        self.outcome = None;
        self.epoch += 1;
    }

    /// Inserts the row of a new run, and sets its key.
    pub(crate) fn insert(&mut self, connection: &Connection) -> Result<()> {
        // The checksum covers the key, which is known only after the insert. So the row is inserted empty and then
        // updated.
        connection
            .prepare_cached(
                "INSERT INTO runs (id, status, created_at, changed_at, epoch, execution, started_at,
                     earlier_steps, sum) VALUES (?1, '', 0, 0, 0, 0, 0, 0, x'')",
            )?
            .execute([&self.id])?;
        self.key = connection.last_insert_rowid();
        self.update(connection)
    }

    /// Stores all columns of the row with a new checksum.
    pub(crate) fn update(&self, connection: &Connection) -> Result<()> {
        let mut update = connection.prepare_cached(
            "UPDATE runs SET status = ?2, created_at = ?3, changed_at = ?4, epoch = ?5,
                 execution = ?6, started_at = ?7, earlier_steps = ?8, sum = ?9, input = ?10,
                 start = ?11, outcome = ?12, agent_version = ?13, first_start = ?14
             WHERE key = ?1",
        )?;
        update.execute((
            self.key,
            status_name(self.status),
            self.created_at,
            self.changed_at,
            self.epoch,
            self.execution,
            self.started_at,
            self.earlier_steps,
            self.checksum(),
            &self.input,
            &self.start,
            &self.outcome,
            &self.agent_version,
            self.first_start,
        ))?;
        Ok(())
    }

    /// Returns the checksum of the row's columns.
    fn checksum(&self) -> Checksum {
        let numbers = [
            self.key,
            self.created_at,
            self.changed_at,
            self.epoch,
            self.execution,
            self.started_at,
            self.earlier_steps,
        ];
        let mut texts = vec![
            Some(self.id.as_str()),
            Some(status_name(self.status)),
            self.input.as_deref(),
            self.start.as_deref(),
            self.outcome.as_deref(),
        ];
        texts.extend(self.agent_version.as_deref().map(Some));
        let sum = Checksum::of(&numbers.map(Some), &texts);
        self.first_start.map_or(sum, |first| sum.with(first))
    }
}

/// Returns the stored name of a status.
pub(crate) fn status_name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Waiting => "waiting",
        RunStatus::Done => "done",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
        RunStatus::Stalled => "stalled",
        // `Damaged` is only reported for a run, and never stored.
        _ => "damaged",
    }
}

/// Returns the status with a stored name. Returns `None` if no status has this name.
fn status_of(name: &str) -> Option<RunStatus> {
    use RunStatus as S;
    let stored = [S::Running, S::Waiting, S::Done, S::Failed, S::Cancelled, S::Stalled];
    stored.into_iter().find(|status| status_name(*status) == name)
}

/// Returns the checksum of a value in JSON. It does not depend on the order of the keys, because the keys of a `HashMap`
/// have another order in each call.
fn checksum_of(json: &str) -> Checksum {
    let sorted = stored_json::read::<Value>(json.as_bytes()).map(|mut value| {
        value.sort_all_objects();
        value.to_string()
    });
    Checksum::of(&[], &[Some(sorted.as_deref().unwrap_or(json))])
}
