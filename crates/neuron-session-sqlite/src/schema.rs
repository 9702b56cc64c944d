//! The tables, version by version.

use neuron_sqlite::Schema;

/// The database of sessions.
pub(crate) const SESSIONS: Schema = Schema {
    application: "neuron sessions",
    // "nrnS".
    application_id: 0x6e72_6e53,
    migrations: &[VERSION_1],
};

/// Texts of JSON, and times as RFC 3339 has them, to the nanosecond.
///
/// `sessions.digest` is that of the other columns, the last message's digest included, and
/// `messages.digest` that of the body and all messages before it.
const VERSION_1: &str = "
    CREATE TABLE sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        revision TEXT NOT NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        message_count INTEGER NOT NULL,
        messages_digest BLOB NOT NULL,
        digest BLOB NOT NULL,
        state TEXT NOT NULL
    ) STRICT;

    CREATE TABLE messages (
        session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        digest BLOB NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, position)
    ) STRICT;
";
