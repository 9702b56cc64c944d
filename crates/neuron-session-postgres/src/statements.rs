//! The SQL of the storage. Each statement is atomic by itself; where several make one write, the storage
//! puts them into a transaction.

use crate::schema::Schema;

/// The statements for one schema.
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

/// Makes a session if its id is free, and returns its revision.
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

/// Keeps others from changing a session until the transaction ends. What the statements after it see is
/// not older than this.
const LOCK: &str = "
    SELECT key, revision, message_count, digest FROM {schema}.sessions WHERE id = $1 FOR UPDATE";

const DIGESTS: &str = "
    SELECT digest FROM {schema}.session_messages WHERE session = $1 ORDER BY position";

/// Removes the messages from a position on.
const CUT: &str = "DELETE FROM {schema}.session_messages WHERE session = $1 AND position >= $2";

/// Adds messages from a position on and sets the given fields, if the session has the expected revision. NULL keeps
/// a field. Returns the new revision.
///
/// Comparing and writing is one step: a second writer waits for the first to commit, and then compares
/// with what that has written.
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

const REVISION: &str = "
    SELECT revision, message_count, digest FROM {schema}.sessions WHERE id = $1";

/// Reads a session with its messages in one statement, so that they are consistent.
const LOAD: &str = "
    SELECT
        revision, message_count, digest,
        state, created_at, created_nanos, updated_at, updated_nanos,
        ARRAY(
            SELECT body FROM {schema}.session_messages WHERE session = key ORDER BY position
        ) AS bodies
    FROM {schema}.sessions WHERE id = $1";

const LIST: &str = "
    SELECT id, message_count, created_at, created_nanos, updated_at, updated_nanos
    FROM {schema}.sessions ORDER BY id";

const DELETE: &str = "DELETE FROM {schema}.sessions WHERE id = $1 RETURNING key";
