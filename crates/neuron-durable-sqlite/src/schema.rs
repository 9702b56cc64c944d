//! The tables of a database of runs, by version ([`RUNS`]).

use neuron_sqlite::Schema;

/// The schema of a database of runs, with a migration for each version.
pub(crate) const RUNS: Schema = Schema {
    application: "neuron runs",
    // The bytes of "nrnR", which mark the SQLite file as a database of runs.
    application_id: 0x6e72_6e52,
    migrations: &[VERSION_1, VERSION_2, VERSION_3],
};

/// The first version of the tables. Values are stored as JSON texts, and times as milliseconds since 1970.
///
/// - `sum` is the checksum of the other columns of the row.
/// - `ended_at` of a step is null until the step ends.
/// - The arguments of a tool call are stored only in the record of the model's response.
/// - The key of a deleted run is never used again. So a context of a deleted run cannot write to a new run.
const VERSION_1: &str = "
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
        outcome TEXT
    ) STRICT;

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
        value TEXT NOT NULL
    ) STRICT;

    CREATE INDEX signals_by_name ON signals (run, name);
";

/// The second version of the tables. It adds the version of the agent, checksums of signals, and an index of unfinished
/// runs.
///
/// A run without an agent version keeps its checksum from version 1. A signal from version 1 has no checksum.
const VERSION_2: &str = "
    ALTER TABLE runs ADD COLUMN agent_version TEXT;
    ALTER TABLE signals ADD COLUMN sum BLOB;
    CREATE INDEX unfinished_runs ON runs (key)
        WHERE status IN ('running', 'stalled') AND instr(id, '/') = 0;
";

/// The third version of the tables. It adds the effects of tool calls with an effect key, by outermost run, and the
/// checksum of the start with which a run was made, because a run that continues as new replaces its start.
///
/// A run from an earlier version has no such checksum.
const VERSION_3: &str = "
    ALTER TABLE runs ADD COLUMN first_start BLOB;

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
