//! The storage, with the transaction of each call.

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

/// Maximum number of attempts of a call whose transaction the server aborts because of others. With the usual
/// isolation level it aborts none.
const ATTEMPTS: usize = 10;

/// Sessions in PostgreSQL, for any number of processes at the same time. Clones share the connections.
///
/// # What it promises
///
/// - Every write is one transaction: after a crash of this process, of the server or of the machine, the
///   old or the new version is there. When a call returns, its write is on the server's disk (unless the
///   server is set up to confirm writes earlier: `synchronous_commit`).
/// - [`append`](VersionedSessionStorage::append) is one statement and one round trip, and writes the new
///   messages alone. [`save`](SessionStorage::save) and [`update`](VersionedSessionStorage::update) write
///   only the messages from the first one that differs from what is stored.
/// - [`list`](SessionStorage::list) reads no messages.
/// - What is loaded equals what was saved: the order of keys, NUL characters and nanoseconds included.
///
/// A session may have up to a gigabyte as JSON, which is what PostgreSQL takes in one value; values in it
/// are nested up to 256 deep, and its times lie between the years −4713 and 294276. What is beyond is
/// refused when it is to be written.
///
/// # Errors of the connection
///
/// A lost connection is [`StorageError::Io`]; nothing is repeated, because the write may have happened.
/// The next call uses another connection. What the server refuses is [`StorageError::Other`], with the
/// server's words and the SQLSTATE; its source is a [`tokio_postgres::Error`].
///
/// # Cancel safety
///
/// All calls can be dropped at any point. The session is then as it was or as it was to be, never between;
/// the connection in use is closed, and the pool opens another one when it needs it.
///
/// # Tables
///
/// They are in the schema `neuron`, or in [another](PostgresSessionStorageBuilder::schema): a row of
/// `sessions` for each session, a row of `session_messages` for each message, and the versions that the
/// tables went through in `session_migrations`. They are made and migrated when the storage is opened;
/// tables of a newer version are refused. Whoever may not make tables can use those that another role has
/// made. Other programs may read them, and may delete rows of `sessions`, whose messages then go as well:
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
    statements: Arc<Statements>,
}

impl PostgresSessionStorage {
    /// Connects without TLS to the server at an address such as
    /// `postgres://user:password@host:5432/database`, with the default settings.
    ///
    /// # Errors
    ///
    /// As [`PostgresSessionStorageBuilder::connect`], which does the same with other settings.
    pub async fn connect(url: &str) -> Result<Self, StorageError> {
        Self::builder().connect(url).await
    }

    /// Returns the default settings, to change them.
    pub fn builder() -> PostgresSessionStorageBuilder {
        PostgresSessionStorageBuilder::new()
    }

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
        let saved = match self.lock(&lease, &draft.session.id).await? {
            Some((key, stored)) => self.replace(&lease, key, &stored, draft).await?,
            None => self.insert(&lease, draft).await?,
        };
        match saved {
            Some(_) => lease.commit().await,
            // The locks keep everybody out who keeps to them; somebody else wrote to the tables.
            None => Err(StorageError::Conflict { id: draft.session.id.clone() }.into()),
        }
    }

    async fn create_once(&self, draft: &Draft<'_>) -> Result<Revision, Error> {
        let id = &draft.session.id;
        let lease = self.begin(id).await?;
        let Some(created) = self.insert(&lease, draft).await? else {
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

    /// Begins a transaction that nobody else begins for the same session before it ends.
    ///
    /// So what was dropped while its commit was on the way is done before whatever comes after it. An
    /// append needs none of this: what comes before it gives the session another revision.
    async fn begin(&self, id: &str) -> Result<Lease, Error> {
        let lease = self.connections.lease().await?;
        lease.begin(self.schema.lock_key(id)).await?;
        Ok(lease)
    }

    /// Reads the key and the revision of a session that is there, and keeps appends from changing it
    /// until the transaction ends.
    async fn lock(&self, lease: &Lease, id: &str) -> Result<Option<(i64, Revision)>, Error> {
        let params: [(&(dyn ToSql + Sync), Type); 1] = [(&id, Type::TEXT)];
        match lease.client()?.query_typed_opt(&self.statements.lock, &params).await? {
            Some(row) => Ok(Some((row.try_get("key")?, self.revision_in(id, &row)?))),
            None => Ok(None),
        }
    }

    /// Writes a session whose id is free, and returns nothing if it is not.
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

    /// Replaces the locked session with this key and revision.
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

    /// Counts the stored messages that the draft has too, and removes the others.
    async fn keep(
        &self,
        lease: &Lease,
        key: i64,
        stored: &Revision,
        draft: &Draft<'_>,
    ) -> Result<usize, Error> {
        let count = usize::try_from(stored.count).unwrap_or(usize::MAX);
        if draft.history.digest_at(count) == Some(&stored.digest) {
            return Ok(count);
        }
        let rows =
            lease.client()?.query_typed(&self.statements.digests, &[(&key, Type::INT8)]).await?;
        let digests: Vec<Vec<u8>> =
            rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let last = digests.last().map_or(history::EMPTY.as_slice(), Vec::as_slice);
        if digests.len() != count || last != stored.digest {
            return Err(self.corrupt(&draft.session.id, "messages are missing").into());
        }
        let known = draft.history.common(&digests);
        let cut = [(&key as &(dyn ToSql + Sync), Type::INT8), (&(known as i64), Type::INT8)];
        lease.client()?.query_typed(&self.statements.cut, &cut).await?;
        Ok(known)
    }

    /// Adds messages, and returns nothing if the session has not the revision expected.
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

    /// Runs one statement outside of a transaction.
    async fn read(
        &self,
        statement: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, StorageError> {
        repeat(|| async move {
            let lease = self.connections.lease().await?;
            let rows = lease.client()?.query_typed(statement, params).await?;
            lease.give_back();
            Ok(rows)
        })
        .await
    }

    /// Why a write that expected a revision found no session with it.
    async fn no_match(&self, id: &str) -> StorageError {
        match self.revision(id).await {
            Ok(_) => StorageError::Conflict { id: id.to_owned() },
            Err(error) => error,
        }
    }

    /// Builds a session of its row, and checks that it is whole.
    fn session(&self, id: &str, row: &Row) -> Result<(Session, SessionRevision), Error> {
        let revision = self.revision_in(id, row)?;
        let bodies: Vec<&str> = row.try_get("bodies")?;
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

    /// Describes a session. A row with values that no session has is described by its damage.
    fn summary_or_damage(&self, row: &Row) -> Result<SessionSummary, StorageError> {
        let id: String = row.try_get("id").map_err(Error::from)?;
        let summary = self.summary(id.clone(), row).map_err(StorageError::from);
        Ok(summary.unwrap_or_else(|damage| SessionSummary::damaged(id, &damage)))
    }

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

/// A session as it goes into the rows.
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

/// A write to a session with the expected revision.
struct Write<'a> {
    id: &'a str,
    expected: &'a Revision,
    state: Option<&'a str>,
    created_at: Option<DateTime<Utc>>,
    updated_at: DateTime<Utc>,
    /// The position of the first new message.
    first: i64,
    history: &'a History,
    /// Number of messages of the history that are stored already.
    known: usize,
}

/// A time in the two columns that hold it.
#[derive(Clone, Copy)]
struct Time {
    micros: DateTime<Utc>,
    nanos: i16,
}

impl Time {
    fn new(time: DateTime<Utc>) -> Self {
        let nanos = time.timestamp_subsec_nanos() % 1000;
        // Both fit: nothing is taken from a time that has nothing beyond microseconds.
        let micros = time.checked_sub_signed(TimeDelta::nanoseconds(nanos.into())).unwrap_or(time);
        Self { micros, nanos: i16::try_from(nanos).unwrap_or_default() }
    }

    fn get(row: &Row, micros: &str, nanos: &str) -> Result<DateTime<Utc>, Error> {
        let micros: DateTime<Utc> = row.try_get(micros)?;
        let nanos = TimeDelta::nanoseconds(row.try_get::<_, i16>(nanos)?.into());
        Ok(micros.checked_add_signed(nanos).unwrap_or(micros))
    }
}

/// Retries a transaction that the server aborted because of others.
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
