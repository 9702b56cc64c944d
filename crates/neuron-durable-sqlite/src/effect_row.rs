//! The row of an effect of an outermost run ([`EffectRow`]).

use neuron_sqlite::Abort;
use neuron_sqlite::rusqlite::{Connection, OptionalExtension, Row};

use crate::JournalError;
use crate::checksum::Checksum;

type Result<T> = std::result::Result<T, Abort<JournalError>>;

/// An effect that a tool call has had or may have, in the outermost run or in an agent inside it. The tool and the
/// [effect key](neuron_types::Tool::effect_key) identify the effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EffectRow {
    pub(crate) tool: String,
    pub(crate) key: String,
    /// The call that last carried out the effect, as the id of its run and the key of its step.
    pub(crate) owner: String,
    pub(crate) state: EffectState,
}

/// The state of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EffectState {
    /// The owner has begun to carry out the effect.
    Running,
    /// The owner failed without the effect.
    Failed,
    /// It is not known whether the owner has had the effect.
    Unknown,
    /// The owner has had the effect. The text is its result as JSON.
    Done(String),
}

const COLUMNS: &str = "tool, key, owner, state, output, sum";

impl EffectRow {
    /// Reads the effect of a run with this tool and key. `run` is the key of the outermost run, and `id` the id of the
    /// run that asks.
    pub(crate) fn find(
        connection: &Connection,
        (run, id): (i64, &str),
        (tool, key): (&str, &str),
    ) -> Result<Option<Self>> {
        let sql =
            format!("SELECT {COLUMNS} FROM effects WHERE run = ?1 AND tool = ?2 AND key = ?3");
        let mut select = connection.prepare_cached(&sql)?;
        let found = select.query_row((run, tool, key), |row| Ok(Self::read(row, (run, id))));
        found.optional()?.transpose()
    }

    /// Reads all effects of a run.
    pub(crate) fn all(connection: &Connection, (run, id): (i64, &str)) -> Result<Vec<Self>> {
        let sql = format!("SELECT {COLUMNS} FROM effects WHERE run = ?1 ORDER BY tool, key");
        let mut select = connection.prepare_cached(&sql)?;
        let mut rows = select.query([run])?;
        let mut effects = Vec::new();
        while let Some(row) = rows.next()? {
            effects.push(Self::read(row, (run, id))?);
        }
        Ok(effects)
    }

    /// Stores the effect. An earlier state is replaced.
    pub(crate) fn store(&self, connection: &Connection, run: i64) -> Result<()> {
        let mut insert = connection.prepare_cached(
            "INSERT OR REPLACE INTO effects (run, tool, key, owner, state, output, sum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        let (state, output) = self.state.columns();
        let sum = self.checksum(run);
        insert.execute((run, &self.tool, &self.key, &self.owner, state, output, sum))?;
        Ok(())
    }

    /// Sets the effects to unknown that calls inside the call `owner` have begun and not ended, because no such call
    /// can end any more. Returns these effects.
    pub(crate) fn end_inside(
        connection: &Connection,
        (run, id): (i64, &str),
        owner: &str,
    ) -> Result<Vec<Self>> {
        let mut ended = Self::all(connection, (run, id))?;
        ended.retain(|effect| {
            effect.state == EffectState::Running && is_inside(&effect.owner, owner)
        });
        for effect in &mut ended {
            effect.state = EffectState::Unknown;
            effect.store(connection, run)?;
        }
        Ok(ended)
    }

    fn read(row: &Row<'_>, (run, id): (i64, &str)) -> Result<Self> {
        let (tool, key): (String, String) = (row.get(0)?, row.get(1)?);
        let damaged = || {
            let reason = format!("its effect {key:?} of the tool `{tool}` is not as written");
            JournalError::corrupt(id, reason)
        };
        let (state, output): (String, Option<String>) = (row.get(3)?, row.get(4)?);
        let state = EffectState::read(&state, output).ok_or_else(damaged)?;
        let sum: Checksum = row.get(5)?;
        let effect = Self { owner: row.get(2)?, state, tool: tool.clone(), key: key.clone() };
        match sum == effect.checksum(run) {
            true => Ok(effect),
            false => Err(damaged().into()),
        }
    }

    /// Returns the checksum of the effect's columns. It covers the run.
    fn checksum(&self, run: i64) -> Checksum {
        let (state, output) = self.state.columns();
        let texts = [Some(&*self.tool), Some(&self.key), Some(&self.owner), Some(state), output];
        Checksum::of(&[Some(run)], &texts)
    }
}

impl EffectState {
    /// Returns the columns `state` and `output`.
    fn columns(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Running => ("running", None),
            Self::Failed => ("failed", None),
            Self::Unknown => ("unknown", None),
            Self::Done(output) => ("done", Some(output)),
        }
    }

    fn read(state: &str, output: Option<String>) -> Option<Self> {
        Some(match (state, output) {
            ("running", None) => Self::Running,
            ("failed", None) => Self::Failed,
            ("unknown", None) => Self::Unknown,
            ("done", Some(output)) => Self::Done(output),
            _ => return None,
        })
    }
}

/// Returns `true` if the call `inner` is made by an agent inside the call `outer`.
pub(crate) fn is_inside(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
}
