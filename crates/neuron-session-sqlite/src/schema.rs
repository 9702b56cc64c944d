//! The tables of the database and their migrations.

use neuron_sqlite::Schema;

/// The schema of the session database.
pub(crate) const SESSIONS: Schema = Schema {
    application: "neuron sessions",
    // The bytes of `nrnS`.
    application_id: 0x6e72_6e53,
    migrations: &[VERSION_1],
};

/// Tables of version 1. States and bodies are JSON. Times are RFC 3339 with nanoseconds.
///
/// `sessions.digest` covers the other columns of the row, including the digest of the last message. `messages.digest`
/// covers the body of the message and all messages before it.
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
