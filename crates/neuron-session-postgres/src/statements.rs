//! The SQL statements of the storage ([`Statements`]). Each statement is atomic. A write that needs several statements
//! runs them in one transaction.

use crate::schema::Schema;

/// The SQL statements for one schema of the database.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) create: String,
    pub(crate) lock: String,
    pub(crate) digests: String,
    pub(crate) cut: String,
    pub(crate) write: String,
    pub(crate) revision: String,
    pub(crate) load: String,
    pub(crate) list: String,
    pub(crate) delete: String,
}

impl Statements {
    pub(crate) fn new(schema: &Schema) -> Self {
        Self {
            create: schema.fill(CREATE),
            lock: schema.fill(LOCK),
            digests: schema.fill(DIGESTS),
            cut: schema.fill(CUT),
            write: schema.fill(WRITE),
            revision: schema.fill(REVISION),
            load: schema.fill(LOAD),
            list: schema.fill(LIST),
            delete: schema.fill(DELETE),
        }
    }
}

/// Inserts a session with its messages, and returns its revision. Inserts nothing and returns no row if the id already
/// exists.
const CREATE: &str = "
    WITH made AS (
        INSERT INTO {schema}.sessions (
            id, state, created_at, created_nanos, updated_at, updated_nanos, message_count, digest
        )
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (id) DO NOTHING
        RETURNING key, revision
    ), added AS (
        INSERT INTO {schema}.session_messages (session, position, body, digest)
        SELECT made.key, new.place - 1, new.body, new.digest
        FROM made, unnest($9::text[], $10::bytea[]) WITH ORDINALITY AS new (body, digest, place)
    )
    SELECT revision FROM made";

/// Reads the revision of a session and locks its row. No other transaction can change the row until this transaction
/// ends.
const LOCK: &str = "
    SELECT key, revision, message_count, digest FROM {schema}.sessions WHERE id = $1 FOR UPDATE";

/// Reads the digests of all messages of a session, in order.
const DIGESTS: &str = "
    SELECT digest FROM {schema}.session_messages WHERE session = $1 ORDER BY position";

/// Deletes the messages of a session from the position `$2` on.
const CUT: &str = "DELETE FROM {schema}.session_messages WHERE session = $1 AND position >= $2";

/// Inserts messages and sets fields of a session, if the session has the expected revision. Returns the new revision,
/// or no row if the session has another revision. If the parameter of a field is NULL, the stored value is kept.
///
/// The comparison and the write are one atomic step. A concurrent writer waits until this write is committed. Its
/// expected revision is then compared with the new revision.
const WRITE: &str = "
    WITH written AS (
        UPDATE {schema}.sessions SET
            revision = DEFAULT,
            state = coalesce($5, state),
            created_at = coalesce($6, created_at),
            created_nanos = coalesce($7, created_nanos),
            updated_at = $8,
            updated_nanos = $9,
            message_count = $10,
            digest = $11
        WHERE id = $1 AND revision = $2 AND message_count = $3 AND digest = $4
        RETURNING key, revision
    ), added AS (
        INSERT INTO {schema}.session_messages (session, position, body, digest)
        SELECT written.key, $12 + new.place - 1, new.body, new.digest
        FROM written, unnest($13::text[], $14::bytea[]) WITH ORDINALITY AS new (body, digest, place)
    )
    SELECT revision FROM written";

/// Reads the revision of a session.
const REVISION: &str = "
    SELECT revision, message_count, digest FROM {schema}.sessions WHERE id = $1";

/// Reads a session and its messages. A single statement reads both, so that they belong to the same revision.
const LOAD: &str = "
    SELECT
        revision, message_count, digest,
        state, created_at, created_nanos, updated_at, updated_nanos,
        ARRAY(
            SELECT body FROM {schema}.session_messages WHERE session = key ORDER BY position
        ) AS bodies
    FROM {schema}.sessions WHERE id = $1";

/// Reads the summaries of all sessions.
const LIST: &str = "
    SELECT id, message_count, created_at, created_nanos, updated_at, updated_nanos
    FROM {schema}.sessions ORDER BY id";

/// Deletes a session. A foreign key of the messages also deletes the session's messages.
const DELETE: &str = "DELETE FROM {schema}.sessions WHERE id = $1 RETURNING key";
