//! The storage of sessions in PostgreSQL ([`PostgresSessionStorage`]), with the transaction of each call.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use neuron_types::{
    Message, Session, SessionRevision, SessionState, SessionStorage, SessionSummary, StorageError,
    VersionedSessionStorage, check_session_id, stored_json,
};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::PostgresSessionStorageBuilder;
use crate::connection::{Connections, Lease};
use crate::error::Error;
use crate::history::{self, Digest, History};
use crate::revision::Revision;
use crate::schema::Schema;
use crate::statements::Statements;

/// Maximum number of attempts of a call. A call is repeated if the server aborts its transaction because of concurrent
/// transactions. This does not happen with PostgreSQL's default isolation level.
const ATTEMPTS: usize = 10;

/// Stores sessions in PostgreSQL, for any number of concurrent processes. Clones share the connections.
///
/// # Guarantees
///
/// - Every write is one transaction. After a crash of this process, the server or the machine, the session has either
///   its old or its new version.
/// - When a call returns, its write is on the server's disk, unless settings of the server such as
///   `synchronous_commit` confirm writes earlier.
/// - [`append`](VersionedSessionStorage::append) needs one statement and one round trip, and writes only the new
///   messages.
/// - [`save`](SessionStorage::save) and [`update`](VersionedSessionStorage::update) find the first message that differs
///   from the stored session. They write only the messages from there on.
/// - [`list`](SessionStorage::list) does not read messages.
/// - A loaded session equals the saved session, including the order of JSON keys, NUL characters and nanoseconds.
///
/// A session with one of these properties is rejected when it is written:
///
/// - more than one gigabyte of JSON, which is PostgreSQL's limit for a value,
/// - JSON that is nested more than 256 levels deep,
/// - a time outside of the years −4713 to 294276.
///
/// # Errors of the connection
///
/// A lost connection is [`StorageError::Io`]. The call is not retried, because its write may have happened. The next
/// call uses another connection. If the server rejects a statement, the error is [`StorageError::Other`] with the
/// server's message and the SQLSTATE. Its source is a [`tokio_postgres::Error`].
///
/// # Cancel safety
///
/// All calls can be dropped at any point. A write then happens completely or not at all. The connection in use is
/// closed, and the pool opens another one when needed.
///
/// # Tables
///
/// The tables are in the schema `neuron`, or in [another schema](PostgresSessionStorageBuilder::schema). `sessions` has
/// a row for each session, `session_messages` has a row for each message, and `session_migrations` has a row for each
/// applied migration. The tables are created and migrated when the storage is opened. Tables of a newer version are an
/// error. A role without the right to create tables can use tables that another role has created.
///
/// Other programs may read the tables. They may also delete rows of `sessions`, which deletes the session's messages as
/// well:
///
/// ```sql
/// DELETE FROM neuron.sessions WHERE updated_at < now() - interval '90 days';
/// ```
///
/// # Example
///
/// ```
/// use neuron_session_postgres::PostgresSessionStorage;
/// use neuron_types::{Message, Session, SessionStorage};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), neuron_types::StorageError> {
/// # let Some(server) = neuron_testkit::postgres::PostgresServer::shared() else { return Ok(()) };
/// # let url = server.url("postgres");
/// let storage = PostgresSessionStorage::connect(&url).await?;
/// let mut session = Session::new("s-1", ".".into());
/// session.messages.push(Message::user("Hello"));
/// storage.save(&session).await?;
/// assert_eq!(storage.load("s-1").await?, session);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresSessionStorage {
    connections: Connections,
    schema: Schema,
    /// The SQL statements for the schema.
    statements: Arc<Statements>,
}

impl PostgresSessionStorage {
    /// Connects to the server at the address `url` without TLS, with the default settings. An example of an address is
    /// `postgres://user:password@host:5432/database`.
    ///
    /// # Errors
    ///
    /// The same errors as [`PostgresSessionStorageBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, StorageError> {
        Self::builder().connect(url).await
    }

    /// Creates a builder with the default settings.
    pub fn builder() -> PostgresSessionStorageBuilder {
        PostgresSessionStorageBuilder::new()
    }

    /// Migrates the tables and creates the storage.
    pub(crate) async fn open(
        connections: Connections,
        schema: Schema,
    ) -> Result<Self, StorageError> {
        repeat(|| schema.migrate(&connections)).await?;
        let statements = Arc::new(Statements::new(&schema));
        Ok(Self { connections, schema, statements })
    }
}

impl SessionStorage for PostgresSessionStorage {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        check_session_id(&session.id)?;
        let draft = Draft::new(session)?;
        repeat(|| self.save_once(&draft)).await
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        Ok(self.load_versioned(id).await?.0)
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        let rows = self.read(&self.statements.list, &[]).await?;
        rows.iter().map(|row| self.summary_or_damage(row)).collect()
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        check_session_id(id)?;
        repeat(|| self.delete_once(id)).await
    }
}

impl VersionedSessionStorage for PostgresSessionStorage {
    async fn create(&self, session: &Session) -> Result<SessionRevision, StorageError> {
        check_session_id(&session.id)?;
        let draft = Draft::new(session)?;
        Ok(repeat(|| self.create_once(&draft)).await?.to_token())
    }

    async fn load_versioned(&self, id: &str) -> Result<(Session, SessionRevision), StorageError> {
        check_session_id(id)?;
        let rows = self.read(&self.statements.load, &[(&id, Type::TEXT)]).await?;
        match rows.first() {
            Some(row) => Ok(self.session(id, row)?),
            None => Err(StorageError::NotFound(id.to_owned())),
        }
    }

    async fn revision(&self, id: &str) -> Result<SessionRevision, StorageError> {
        check_session_id(id)?;
        let rows = self.read(&self.statements.revision, &[(&id, Type::TEXT)]).await?;
        match rows.first() {
            Some(row) => Ok(self.revision_in(id, row)?.to_token()),
            None => Err(StorageError::NotFound(id.to_owned())),
        }
    }

    async fn update(
        &self,
        session: &Session,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        check_session_id(&session.id)?;
        let draft = Draft::new(session)?;
        Ok(repeat(|| self.update_once(&draft, expected)).await?.to_token())
    }

    async fn append(
        &self,
        id: &str,
        messages: &[Message],
        state: Option<&SessionState>,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        check_session_id(id)?;
        let state = state.map(stored_json::to_string).transpose()?;
        // A token of another storage matches no revision.
        let Some(expected) = Revision::from_token(expected) else {
            return Err(self.no_match(id).await);
        };
        let history = History::after(expected.digest, messages)?;
        let write = Write {
            id,
            expected: &expected,
            state: state.as_deref(),
            created_at: None,
            updated_at: Utc::now(),
            first: expected.count,
            history: &history,
            known: 0,
        };
        match repeat(|| self.append_once(&write)).await? {
            Some(revision) => Ok(revision.to_token()),
            None => Err(self.no_match(id).await),
        }
    }
}

impl PostgresSessionStorage {
    async fn save_once(&self, draft: &Draft<'_>) -> Result<(), Error> {
        let lease = self.begin(&draft.session.id).await?;
        // The row lock excludes appends, which do not take the advisory lock.
        let saved = match self.lock(&lease, &draft.session.id).await? {
            Some((key, stored)) => self.replace(&lease, key, &stored, draft).await?,
            None => self.insert(&lease, draft).await?,
        };
        match saved {
            Some(_) => lease.commit().await,
            // The advisory lock excludes other storages, so a program that does not use the lock changed the tables.
            None => Err(StorageError::Conflict { id: draft.session.id.clone() }.into()),
        }
    }

    async fn create_once(&self, draft: &Draft<'_>) -> Result<Revision, Error> {
        let id = &draft.session.id;
        let lease = self.begin(id).await?;
        let Some(created) = self.insert(&lease, draft).await? else {
            // Without the rollback the connection could not return to the pool.
            lease.roll_back().await?;
            return Err(StorageError::Conflict { id: id.clone() }.into());
        };
        lease.commit().await?;
        Ok(created)
    }

    async fn update_once(
        &self,
        draft: &Draft<'_>,
        expected: &SessionRevision,
    ) -> Result<Revision, Error> {
        let id = &draft.session.id;
        let lease = self.begin(id).await?;
        let Some((key, stored)) = self.lock(&lease, id).await? else {
            lease.roll_back().await?;
            return Err(StorageError::NotFound(id.clone()).into());
        };
        let replaced = match stored.to_token() == *expected {
            true => self.replace(&lease, key, &stored, draft).await?,
            false => None,
        };
        let Some(replaced) = replaced else {
            lease.roll_back().await?;
            return Err(StorageError::Conflict { id: id.clone() }.into());
        };
        lease.commit().await?;
        Ok(replaced)
    }

    /// Appends messages in a single statement, without an explicit transaction.
    async fn append_once(&self, write: &Write<'_>) -> Result<Option<Revision>, Error> {
        let lease = self.connections.lease().await?;
        let written = self.write(&lease, write).await?;
        lease.give_back();
        Ok(written)
    }

    async fn delete_once(&self, id: &str) -> Result<(), Error> {
        let lease = self.begin(id).await?;
        let params: [(&(dyn ToSql + Sync), Type); 1] = [(&id, Type::TEXT)];
        if lease.client()?.query_typed(&self.statements.delete, &params).await?.is_empty() {
            lease.roll_back().await?;
            return Err(StorageError::NotFound(id.to_owned()).into());
        }
        lease.commit().await
    }

    /// Begins a transaction that holds the advisory lock of a session. Other transactions that request this lock wait
    /// until this transaction has ended.
    ///
    /// A call may be dropped while its commit still runs on the server. Because of the lock, the next call waits for
    /// the end of that commit. Appends need no lock, because they compare the revision, which every write changes.
    async fn begin(&self, id: &str) -> Result<Lease, Error> {
        let lease = self.connections.lease().await?;
        lease.begin(self.schema.lock_key(id)).await?;
        Ok(lease)
    }

    /// Returns the key and the revision of a session, and locks its row until the transaction ends. Concurrent appends
    /// wait for this lock. Returns `None` if the session does not exist.
    async fn lock(&self, lease: &Lease, id: &str) -> Result<Option<(i64, Revision)>, Error> {
        let params: [(&(dyn ToSql + Sync), Type); 1] = [(&id, Type::TEXT)];
        match lease.client()?.query_typed_opt(&self.statements.lock, &params).await? {
            Some(row) => Ok(Some((row.try_get("key")?, self.revision_in(id, &row)?))),
            None => Ok(None),
        }
    }

    /// Inserts a session and returns its revision. Returns `None` if the id already exists.
    async fn insert(&self, lease: &Lease, draft: &Draft<'_>) -> Result<Option<Revision>, Error> {
        let [created_at, updated_at] =
            [draft.session.created_at, draft.session.updated_at].map(Time::new);
        let bodies = draft.history.bodies_from(0);
        let digests = draft.history.digests_from(0);
        let row = lease
            .client()?
            .query_typed_opt(
                &self.statements.create,
                &[
                    (&draft.session.id, Type::TEXT),
                    (&draft.state, Type::TEXT),
                    (&created_at.micros, Type::TIMESTAMPTZ),
                    (&created_at.nanos, Type::INT2),
                    (&updated_at.micros, Type::TIMESTAMPTZ),
                    (&updated_at.nanos, Type::INT2),
                    (&(bodies.len() as i64), Type::INT8),
                    (&draft.history.digest().as_slice(), Type::BYTEA),
                    (&bodies, Type::TEXT_ARRAY),
                    (&digests, Type::BYTEA_ARRAY),
                ],
            )
            .await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let count = bodies.len() as i64;
        Ok(Some(Revision { number: row.try_get(0)?, count, digest: *draft.history.digest() }))
    }

    /// Replaces a stored session by `draft`. `key` is the key of the session's row, which the transaction must have
    /// locked. Returns `None` if the session does not have the revision `stored`.
    async fn replace(
        &self,
        lease: &Lease,
        key: i64,
        stored: &Revision,
        draft: &Draft<'_>,
    ) -> Result<Option<Revision>, Error> {
        let known = self.keep(lease, key, stored, draft).await?;
        let write = Write {
            id: &draft.session.id,
            expected: stored,
            state: Some(&draft.state),
            created_at: Some(draft.session.created_at),
            updated_at: draft.session.updated_at,
            first: known as i64,
            history: &draft.history,
            known,
        };
        self.write(lease, &write).await
    }

    /// Deletes the stored messages that differ from `draft`, the session to write. These are all messages from the
    /// first difference on. Returns the number of remaining messages.
    async fn keep(
        &self,
        lease: &Lease,
        key: i64,
        stored: &Revision,
        draft: &Draft<'_>,
    ) -> Result<usize, Error> {
        let count = usize::try_from(stored.count).unwrap_or(usize::MAX);
        // Equal digests mean that all stored messages are unchanged, so no row is read.
        if draft.history.digest_at(count) == Some(&stored.digest) {
            return Ok(count);
        }
        let rows =
            lease.client()?.query_typed(&self.statements.digests, &[(&key, Type::INT8)]).await?;
        let digests: Vec<Vec<u8>> =
            rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let last = digests.last().map_or(history::EMPTY.as_slice(), Vec::as_slice);
        // A damaged session is not overwritten.
        if digests.len() != count || last != stored.digest {
            return Err(self.corrupt(&draft.session.id, "messages are missing").into());
        }
        let known = draft.history.common(&digests);
        let cut = [(&key as &(dyn ToSql + Sync), Type::INT8), (&(known as i64), Type::INT8)];
        lease.client()?.query_typed(&self.statements.cut, &cut).await?;
        Ok(known)
    }

    /// Writes new messages and fields of a session. Returns `None` if the session does not have the expected revision.
    async fn write(&self, lease: &Lease, write: &Write<'_>) -> Result<Option<Revision>, Error> {
        let created_at = write.created_at.map(Time::new);
        let updated_at = Time::new(write.updated_at);
        let bodies = write.history.bodies_from(write.known);
        let digests = write.history.digests_from(write.known);
        let count = write.first + bodies.len() as i64;
        let row = lease
            .client()?
            .query_typed_opt(
                &self.statements.write,
                &[
                    (&write.id, Type::TEXT),
                    (&write.expected.number, Type::INT8),
                    (&write.expected.count, Type::INT8),
                    (&write.expected.digest.as_slice(), Type::BYTEA),
                    (&write.state, Type::TEXT),
                    (&created_at.map(|time| time.micros), Type::TIMESTAMPTZ),
                    (&created_at.map(|time| time.nanos), Type::INT2),
                    (&updated_at.micros, Type::TIMESTAMPTZ),
                    (&updated_at.nanos, Type::INT2),
                    (&count, Type::INT8),
                    (&write.history.digest().as_slice(), Type::BYTEA),
                    (&write.first, Type::INT8),
                    (&bodies, Type::TEXT_ARRAY),
                    (&digests, Type::BYTEA_ARRAY),
                ],
            )
            .await?;
        let Some(row) = row else {
            return Ok(None);
        };
        Ok(Some(Revision { number: row.try_get(0)?, count, digest: *write.history.digest() }))
    }

    /// Runs a read-only statement without an explicit transaction.
    async fn read(
        &self,
        statement: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, StorageError> {
        repeat(|| async move {
            let lease = self.connections.lease().await?;
            // An error drops the lease, which closes the connection.
            let rows = lease.client()?.query_typed(statement, params).await?;
            lease.give_back();
            Ok(rows)
        })
        .await
    }

    /// Returns the error for a write that found no session with the expected revision. It is [`StorageError::Conflict`]
    /// if the session exists, and [`StorageError::NotFound`] if it does not. If the session cannot be read, it is the
    /// read error.
    async fn no_match(&self, id: &str) -> StorageError {
        match self.revision(id).await {
            Ok(_) => StorageError::Conflict { id: id.to_owned() },
            Err(error) => error,
        }
    }

    /// Decodes a session from its row, and verifies that its messages are complete and unchanged.
    fn session(&self, id: &str, row: &Row) -> Result<(Session, SessionRevision), Error> {
        let revision = self.revision_in(id, row)?;
        let bodies: Vec<&str> = row.try_get("bodies")?;
        // Other programs may have changed the rows.
        if history::digest_of(bodies.iter().copied()) != revision.digest
            || i64::try_from(bodies.len()) != Ok(revision.count)
        {
            return Err(self.corrupt(id, "messages are missing or were changed").into());
        }
        let mut messages = Vec::with_capacity(bodies.len());
        for (position, body) in bodies.into_iter().enumerate() {
            let message = stored_json::read(body.as_bytes())
                .map_err(|error| self.corrupt(id, &format!("message {position}: {error}")))?;
            messages.push(message);
        }
        let state = stored_json::read(row.try_get::<_, &str>("state")?.as_bytes())
            .map_err(|error| self.corrupt(id, &format!("its state: {error}")))?;
        let session = Session {
            id: id.to_owned(),
            messages,
            state,
            created_at: Time::get(row, "created_at", "created_nanos")?,
            updated_at: Time::get(row, "updated_at", "updated_nanos")?,
        };
        Ok((session, revision.to_token()))
    }

    /// Returns the summary of a session. If the row has invalid values, the summary contains the error in its field
    /// `damage`.
    fn summary_or_damage(&self, row: &Row) -> Result<SessionSummary, StorageError> {
        let id: String = row.try_get("id").map_err(Error::from)?;
        let summary = self.summary(id.clone(), row).map_err(StorageError::from);
        Ok(summary.unwrap_or_else(|damage| SessionSummary::damaged(id, &damage)))
    }

    /// Decodes the summary of a session from its row.
    fn summary(&self, id: String, row: &Row) -> Result<SessionSummary, Error> {
        let message_count = usize::try_from(row.try_get::<_, i64>("message_count")?)
            .map_err(|_| self.corrupt(&id, "its number of messages is negative"))?;
        Ok(SessionSummary {
            message_count,
            created_at: Time::get(row, "created_at", "created_nanos")?,
            updated_at: Time::get(row, "updated_at", "updated_nanos")?,
            id,
            damage: None,
        })
    }

    /// Decodes the revision of a session from its row.
    fn revision_in(&self, id: &str, row: &Row) -> Result<Revision, Error> {
        let digest: &[u8] = row.try_get("digest")?;
        let digest: Digest =
            digest.try_into().map_err(|_| self.corrupt(id, "its digest has another length"))?;
        Ok(Revision {
            number: row.try_get("revision")?,
            count: row.try_get("message_count")?,
            digest,
        })
    }

    /// Returns a [`StorageError::Corrupt`] for a damaged session. `reason` describes the damage.
    fn corrupt(&self, id: &str, reason: &str) -> StorageError {
        let (schema, place) = (self.schema.name(), self.connections.place());
        let location = format!("session {id:?} in schema {schema} of {place}");
        StorageError::Corrupt { location, reason: reason.to_owned() }
    }
}

impl fmt::Debug for PostgresSessionStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (connections, max_connections) = self.connections.size();
        f.debug_struct("PostgresSessionStorage")
            .field("place", &self.connections.place())
            .field("schema", &self.schema.name())
            .field("connections", &connections)
            .field("max_connections", &max_connections)
            .finish()
    }
}

/// A session to write, with its state and messages serialised.
struct Draft<'a> {
    session: &'a Session,
    state: String,
    history: History,
}

impl<'a> Draft<'a> {
    fn new(session: &'a Session) -> Result<Self, StorageError> {
        let history = History::after(history::EMPTY, &session.messages)?;
        Ok(Self { session, state: stored_json::to_string(&session.state)?, history })
    }
}

/// The parameters of [`PostgresSessionStorage::write`], which changes an existing session.
struct Write<'a> {
    /// Id of the session.
    id: &'a str,
    /// Expected revision. The write has no effect if the session has another revision.
    expected: &'a Revision,
    /// New state as JSON. `None` keeps the stored state.
    state: Option<&'a str>,
    /// New creation time. `None` keeps the stored time.
    created_at: Option<DateTime<Utc>>,
    updated_at: DateTime<Utc>,
    /// Position of the first new message in the session.
    first: i64,
    /// The messages of the write. The first `known` messages are already stored and are not written again.
    history: &'a History,
    /// Number of messages at the beginning of `history` that are already stored.
    known: usize,
}

/// A time in the form of two database columns, for microseconds and nanoseconds.
#[derive(Clone, Copy)]
struct Time {
    /// The time, truncated to microseconds, which is PostgreSQL's precision.
    micros: DateTime<Utc>,
    /// The part of the time below a microsecond, in nanoseconds from 0 to 999.
    nanos: i16,
}

impl Time {
    fn new(time: DateTime<Utc>) -> Self {
        let nanos = time.timestamp_subsec_nanos() % 1000;
        // The subtraction cannot overflow, because the minimum time has no nanoseconds beyond its microseconds.
        let micros = time.checked_sub_signed(TimeDelta::nanoseconds(nanos.into())).unwrap_or(time);
        Self { micros, nanos: i16::try_from(nanos).unwrap_or_default() }
    }

    /// Reads a time from the two columns with the names `micros` and `nanos`.
    fn get(row: &Row, micros: &str, nanos: &str) -> Result<DateTime<Utc>, Error> {
        let micros: DateTime<Utc> = row.try_get(micros)?;
        let nanos = TimeDelta::nanoseconds(row.try_get::<_, i16>(nanos)?.into());
        Ok(micros.checked_add_signed(nanos).unwrap_or(micros))
    }
}

/// Calls `work`, and calls it again if the server aborts its transaction because of concurrent transactions. Makes at
/// most [`ATTEMPTS`] attempts.
async fn repeat<T, F: Future<Output = Result<T, Error>>>(
    mut work: impl FnMut() -> F,
) -> Result<T, StorageError> {
    let mut attempt = 1;
    loop {
        match work().await {
            Err(error) if error.is_transient() && attempt < ATTEMPTS => attempt += 1,
            done => return Ok(done?),
        }
    }
}
