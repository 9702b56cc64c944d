//! The tables of a database of runs ([`RUNS`]).

use neuron_sqlite::Schema;

/// The schema of a database of runs.
pub(crate) const RUNS: Schema = Schema {
    application: "neuron runs",
    // The bytes of "nrnR", which mark the SQLite file as a database of runs.
    application_id: 0x6e72_6e52,
    // No release had the versions 1 and 2.
    migrations: &["", "", VERSION_3],
};

/// The tables. Values are stored as JSON texts, and times as milliseconds since 1970.
///
/// - `sum` is the checksum of the other columns of the row.
/// - `first_start` is the checksum of the start with which a run was made, because a run that continues as new replaces
///   its start.
/// - `ended_at` of a step is null until the step ends.
/// - The arguments of a tool call are stored only in the record of the model's response.
/// - The key of a deleted run is never used again. So a context of a deleted run cannot write to a new run.
/// - `effects` has the effects of tool calls with an effect key, by outermost run.
const VERSION_3: &str = "
    CREATE TABLE runs (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        changed_at INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        execution INTEGER NOT NULL,
        started_at INTEGER NOT NULL,
        earlier_steps INTEGER NOT NULL,
        sum BLOB NOT NULL,
        input TEXT,
        start TEXT,
        outcome TEXT,
        agent_version TEXT,
        first_start BLOB
    ) STRICT;

    CREATE INDEX unfinished_runs ON runs (key)
        WHERE status IN ('running', 'stalled') AND instr(id, '/') = 0;

    CREATE TABLE steps (
        run INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        key TEXT NOT NULL,
        name TEXT,
        digest TEXT,
        effect TEXT,
        idempotency_key TEXT,
        attempt INTEGER NOT NULL,
        begun_at INTEGER NOT NULL,
        deadline INTEGER,
        ended_at INTEGER,
        sum BLOB NOT NULL,
        pending TEXT,
        record TEXT,
        PRIMARY KEY (run, position)
    ) STRICT;

    CREATE TABLE signals (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
        name TEXT NOT NULL,
        sent_at INTEGER NOT NULL,
        value TEXT NOT NULL,
        sum BLOB NOT NULL
    ) STRICT;

    CREATE INDEX signals_by_name ON signals (run, name);

    CREATE TABLE effects (
        run INTEGER NOT NULL REFERENCES runs (key) ON DELETE CASCADE,
        tool TEXT NOT NULL,
        key TEXT NOT NULL,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        output TEXT,
        sum BLOB NOT NULL,
        PRIMARY KEY (run, tool, key)
    ) STRICT;
";
