//! A database with one connection for writes, some for reads, and their queue.

use std::fmt;
use std::future::poll_fn;
use std::panic;
use std::path::{self, Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use crate::descriptors::Kept;
use crate::off_executor::off_executor;
use crate::open_files::OpenFiles;
use crate::witness::Witness;
use crate::writes::Queue;
use crate::{Abort, Schema, SqliteError, SqliteOptions, Synchronous, backup, connection};

/// A database. Clones share its connections.
///
/// One connection writes and up to [`SqliteOptions::readers`] read beside it. Whoever waits for one
/// waits in order of arrival, and blocks no thread. Writes that wait at the same time share a transaction and its sync.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    options: SqliteOptions,
    writer: Arc<AsyncMutex<Writer>>,
    writes: Queue,
    /// None in memory, where there is but one connection.
    readers: Option<Readers>,
    /// For reads that wait for no other caller. It is opened when it is needed.
    apart: Mutex<Option<Connection>>,
    files: Files,
    /// After the connections.
    _kept: Vec<Kept>,
}

/// The connection that writes.
struct Writer {
    connection: Connection,
    /// True if its next commit is synced.
    is_synced: bool,
}

/// The checks around each transaction.
#[derive(Default)]
pub(crate) struct Files {
    /// None in memory.
    open: Option<OpenFiles>,
    pub(crate) witness: Option<Witness>,
}

impl Files {
    fn check_open(&self) -> Result<(), SqliteError> {
        self.open.as_ref().map_or(Ok(()), OpenFiles::check)
    }

    /// Begins a transaction, and checks it.
    pub(crate) fn begin<'c>(
        &self,
        path: &Path,
        connection: &'c mut Connection,
        behavior: TransactionBehavior,
    ) -> Result<Transaction<'c>, SqliteError> {
        let seen = self.witness.as_ref().map(Witness::seen).transpose()?;
        let transaction = connection.transaction_with_behavior(behavior);
        let transaction = transaction.map_err(|error| SqliteError::new(path, error))?;
        self.check(&transaction, seen)?;
        Ok(transaction)
    }

    /// Checks that a transaction reads the files that were opened, and that it has every commit up to `seen`.
    fn check(&self, transaction: &Connection, seen: Option<u64>) -> Result<(), SqliteError> {
        self.check_open()?;
        match (&self.witness, seen) {
            (Some(witness), Some(seen)) => witness.check(transaction, seen),
            _ => Ok(()),
        }
    }
}

/// The event for which a write waits.
enum Turn<O, W> {
    Ended(O),
    Begins(W),
}

/// The connections that read. They are opened when they are needed.
struct Readers {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Database {
    /// Opens a database, creates it if there is none, and brings it up to date.
    ///
    /// The path `:memory:` gives a database that lives as long as this value.
    ///
    /// # Errors
    ///
    /// [`SqliteError::NotADatabase`], [`SqliteError::OtherApplication`],
    /// [`SqliteError::UnsupportedVersion`], [`SqliteError::Corrupt`] or [`SqliteError::ReadOnly`] by what
    /// is there, which is left as it is; [`SqliteError::Io`] when its folder does not exist.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it opens nothing, or opens the database and closes it again.
    pub async fn open(
        path: impl AsRef<Path>,
        schema: Schema,
        options: SqliteOptions,
    ) -> Result<Self, SqliteError> {
        Self::open_path(path.as_ref(), schema, options, false).await
    }

    /// Opens a database as [`open`](Self::open) does, and notices commits that are lost.
    ///
    /// SQLite takes a log that is missing, cut or damaged for an earlier state of the database. A database that is
    /// opened by this method counts its commits, and each writer notes the count in a small file beside the database,
    /// the witness, with the ending `-witness`. Opening, reading and writing fail if the witness has seen more commits
    /// than the database has. The database may have more commits than the witness has seen, for example after a crash.
    ///
    /// With [`Synchronous::Normal`](crate::Synchronous::Normal) a power failure may undo commits, so they are not noted,
    /// and their loss is not noticed. Writers that use [`open`](Self::open) or another program do not count.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and [`SqliteError::Lost`]. [`accept_older`](crate::accept_older) is the way on if the
    /// older state is wanted.
    ///
    /// # Cancel safety
    ///
    /// As [`open`](Self::open).
    pub async fn open_witnessed(
        path: impl AsRef<Path>,
        schema: Schema,
        options: SqliteOptions,
    ) -> Result<Self, SqliteError> {
        Self::open_path(path.as_ref(), schema, options, true).await
    }

    async fn open_path(
        path: &Path,
        schema: Schema,
        options: SqliteOptions,
        is_witnessed: bool,
    ) -> Result<Self, SqliteError> {
        let here = path.to_owned();
        let opening = off_executor(move || Self::open_here(here, &schema, options, is_witnessed));
        opening.await.ok_or_else(|| SqliteError::Stopped { path: path.to_owned() })?
    }

    fn open_here(
        path: PathBuf,
        schema: &Schema,
        options: SqliteOptions,
        is_witnessed: bool,
    ) -> Result<Self, SqliteError> {
        let is_in_memory = path.as_os_str() == ":memory:";
        let mut kept = Vec::new();
        let (path, writer, files) = if is_in_memory {
            let writer = connection::open_in_memory(&path, schema, &options)?;
            (path, writer, Files::default())
        } else {
            // Readers come later, when the working directory may be another one.
            let path = path::absolute(&path).map_err(|source| SqliteError::Io { path, source })?;
            let witness = is_witnessed.then(|| Witness::of(&path, &options));
            let writer = connection::open(&path, schema, &options, witness.as_ref(), &mut kept)?;
            let files = Files { open: Some(OpenFiles::of(&path)), witness };
            (path, writer, files)
        };
        let readers = (!is_in_memory).then(|| Readers {
            permits: Arc::new(Semaphore::new(options.readers)),
            idle: Mutex::default(),
        });
        let is_synced = options.synchronous == Synchronous::Full;
        let writer = Arc::new(AsyncMutex::new(Writer { connection: writer, is_synced }));
        let (writes, apart) = (Queue::default(), Mutex::default());
        let shared = Shared { path, options, writer, writes, readers, apart, files, _kept: kept };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the path of the database.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Runs a transaction that may write. What it did is there when this returns `Ok`; if the work
    /// returns an error or panics, nothing is.
    ///
    /// Nobody else writes meanwhile, in this process or another.
    ///
    /// # Errors
    ///
    /// The work's own; else a [`SqliteError`]. It is [`SqliteError::Replaced`] if the database file or its log was
    /// deleted or replaced since it was opened, or has another hard link. Elsewhere than on Unix this is not checked.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it changes nothing, unless it was being committed at that moment: then it is there
    /// wholly or not at all. Writes that come after it wait until that is decided.
    pub async fn write<T, E>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Abort<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
    {
        self.enqueue(true, work).await
    }

    /// [`write`](Self::write)s without a sync. A power failure may undo the write, until a later write is synced.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write).
    pub async fn write_unsynced<T, E>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Abort<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
    {
        self.enqueue(false, work).await
    }

    /// Adds a write to the queue, and waits until it is done. Whoever has the connection runs the writes of all.
    async fn enqueue<T, E>(
        &self,
        is_synced: bool,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Abort<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
    {
        let mut outcome = pin!(self.shared.writes.add(is_synced, work));
        loop {
            let mut writer = pin!(self.shared.writer.clone().lock_owned());
            let turn = poll_fn(|cx| match outcome.as_mut().poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(Turn::Ended(outcome)),
                Poll::Pending => writer.as_mut().poll(cx).map(Turn::Begins),
            });
            match turn.await {
                Turn::Ended(Ok(Ok(result))) => return result,
                Turn::Ended(Ok(Err(payload))) => panic::resume_unwind(payload),
                Turn::Ended(Err(_)) => return Err(self.stopped().into()),
                Turn::Begins(mut writer) => {
                    let shared = self.shared.clone();
                    let ran = off_executor(move || shared.run_writes(&mut writer));
                    ran.await.ok_or_else(|| self.stopped())?;
                }
            }
        }
    }

    /// Runs a transaction that only reads. All of its reads see the same state.
    ///
    /// # Errors
    ///
    /// The work's own; else a [`SqliteError`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it has no effect.
    pub async fn read<T, E>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Abort<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
    {
        let deferred = TransactionBehavior::Deferred;
        let Some(readers) = &self.shared.readers else {
            return self
                .with_writer(move |connection, shared| shared.transact(connection, deferred, work))
                .await;
        };
        let shared = self.shared.clone();
        // It is never closed, so that there always comes a permit.
        let permit = readers.permits.clone().acquire_owned().await.ok();
        let result = off_executor(move || {
            let _permit = permit;
            shared.with_reader(|connection| shared.transact(connection, deferred, work))
        });
        result.await.ok_or_else(|| self.stopped())?
    }

    /// Syncs the [witness](Self::open_witnessed). A loss of the commits that were made before is then noticed, also after a
    /// power failure. Without a witness, and with [`Synchronous::Normal`](crate::Synchronous::Normal), it does nothing.
    ///
    /// # Errors
    ///
    /// [`SqliteError::Io`] if the witness was removed or cannot be synced.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the witness may not be synced.
    pub async fn sync_witness(&self) -> Result<(), SqliteError> {
        if self.shared.files.witness.is_none() {
            return Ok(());
        }
        let shared = self.shared.clone();
        let sync = move || shared.files.witness.as_ref().map_or(Ok(()), Witness::sync);
        off_executor(sync).await.ok_or_else(|| self.stopped())?
    }

    /// Runs a transaction that only reads, and waits for no caller of [`read`](Self::read) or [`write`](Self::write) whose
    /// future is not polled. For those who must finish before they poll such a future again.
    ///
    /// Returns `None` in memory while the only connection is in use.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it has no effect.
    pub async fn read_apart<T, E>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Abort<E>> + Send + 'static,
    ) -> Result<Option<T>, E>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
    {
        self.apart(TransactionBehavior::Deferred, work).await
    }

    /// Runs a transaction as [`read_apart`](Self::read_apart) does, while nobody writes. It sees the result of each
    /// transaction that began before.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it has no effect.
    pub async fn read_apart_from_writers<T, E>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Abort<E>> + Send + 'static,
    ) -> Result<Option<T>, E>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
    {
        self.apart(TransactionBehavior::Immediate, work).await
    }

    async fn apart<T, E>(
        &self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Abort<E>> + Send + 'static,
    ) -> Result<Option<T>, E>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
    {
        let shared = self.shared.clone();
        if shared.readers.is_none() {
            // It is free, or whoever has it is polled: nothing is waited for.
            let Ok(mut writer) = shared.writer.clone().try_lock_owned() else {
                return Ok(None);
            };
            return shared.transact(&mut writer.connection, behavior, work).map(Some);
        }
        let result = off_executor(move || {
            // The lock is held by threads that make progress, and never across a wait of a future.
            let mut apart = shared.apart.lock().unwrap_or_else(PoisonError::into_inner);
            let mut connection = match apart.take() {
                Some(connection) => connection,
                None => {
                    shared.files.check_open()?;
                    let opened = connection::open_another(&shared.path, &shared.options);
                    opened.map_err(|error| E::from(SqliteError::new(&shared.path, error)))?
                }
            };
            let read = shared.transact(&mut connection, behavior, work);
            *apart = Some(connection);
            read.map(Some)
        });
        result.await.ok_or_else(|| self.stopped())?
    }

    /// Returns the space of deleted data to the file system.
    ///
    /// # Errors
    ///
    /// A [`SqliteError`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it gives back all or nothing. Nothing but space is lost.
    pub async fn reclaim(&self) -> Result<(), SqliteError> {
        self.with_writer(|connection, shared| {
            run_to_end(connection, "PRAGMA incremental_vacuum")
                // The file itself is cut when the log is written back to it.
                .and_then(|()| run_to_end(connection, "PRAGMA wal_checkpoint(PASSIVE)"))
                .map_err(|error| SqliteError::new(&shared.path, error))
        })
        .await
    }

    /// Writes a copy of the database, as it is at one moment, to a new file. Others go on reading and writing.
    ///
    /// The copy is one file without a log or a witness. It is checked, complete and synced before it has its name.
    /// Copying the database file instead loses what is in its log.
    ///
    /// # Errors
    ///
    /// [`SqliteError::Io`] if there is a file at the path, or its folder does not exist. [`SqliteError::Corrupt`] or
    /// [`SqliteError::Lost`] if the database is damaged. No file is then left at the path.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the copy is written all the same or not at all.
    pub async fn backup(&self, to: impl AsRef<Path>) -> Result<(), SqliteError> {
        let to = to.as_ref();
        let absolute = path::absolute(to);
        let to = absolute.map_err(|source| SqliteError::Io { path: to.into(), source })?;
        if self.shared.readers.is_none() {
            return self
                .with_writer(move |connection, shared| backup::write(connection, &shared.path, &to))
                .await;
        }
        let shared = self.shared.clone();
        let result = off_executor(move || {
            shared.files.check_open()?;
            // A connection of its own: those for reading cannot write anywhere.
            let opened = connection::open_another(&shared.path, &shared.options);
            let mut connection = opened.map_err(|error| SqliteError::new(&shared.path, error))?;
            shared.files.begin(&shared.path, &mut connection, TransactionBehavior::Deferred)?;
            backup::write(&connection, &shared.path, &to)
        });
        result.await.ok_or_else(|| self.stopped())?
    }

    /// Moves the log into the file and empties the log, so that both together take as little space as possible.
    /// Data that other connections read or write at the moment stays in the log. Nothing waits for them.
    ///
    /// # Errors
    ///
    /// A [`SqliteError`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it happens wholly or not at all. Nothing but space is lost.
    pub async fn checkpoint(&self) -> Result<(), SqliteError> {
        let patience = self.shared.options.busy_timeout;
        self.with_writer(move |connection, shared| {
            let done = connection
                .busy_timeout(Duration::ZERO)
                .and_then(|()| run_to_end(connection, "PRAGMA wal_checkpoint(TRUNCATE)"));
            connection
                .busy_timeout(patience)
                .and(done)
                .map_err(|error| SqliteError::new(&shared.path, error))
        })
        .await
    }

    /// Runs something with the connection that writes, when its turn comes.
    async fn with_writer<T, E>(
        &self,
        work: impl FnOnce(&mut Connection, &Shared) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
    {
        let mut writer = self.shared.writer.clone().lock_owned().await;
        let shared = self.shared.clone();
        let result = off_executor(move || work(&mut writer.connection, &shared));
        result.await.ok_or_else(|| self.stopped())?
    }

    fn stopped(&self) -> SqliteError {
        SqliteError::Stopped { path: self.shared.path.clone() }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl Shared {
    /// Runs the writes that wait.
    fn run_writes(&self, writer: &mut Writer) {
        let Writer { connection, is_synced } = writer;
        let can_sync = self.options.synchronous == Synchronous::Full;
        self.writes.run(&self.path, connection, &self.files, |connection, is_needed| {
            if can_sync && *is_synced != is_needed {
                let mode = if is_needed { Synchronous::Full } else { Synchronous::Normal };
                connection.pragma_update(None, "synchronous", mode.as_sql())?;
                *is_synced = is_needed;
            }
            Ok(())
        });
    }

    /// Runs a transaction that reads to its end.
    fn transact<T, E: From<SqliteError>>(
        &self,
        connection: &mut Connection,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Abort<E>>,
    ) -> Result<T, E> {
        let transaction = self.files.begin(&self.path, connection, behavior)?;
        let read =
            work(&transaction).and_then(|result| Ok(transaction.commit().map(|()| result)?));
        read.map_err(|abort| abort.into_error(&self.path))
    }

    /// Runs something with a connection that reads. One whose work panics is closed.
    fn with_reader<T, E: From<SqliteError>>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let idle = self.idle().and_then(|mut idle| idle.pop());
        let opened = match idle {
            Some(connection) => Ok(connection),
            None => {
                self.files.check_open()?;
                connection::open_reader(&self.path, &self.options)
            }
        };
        let mut connection =
            opened.map_err(|error| E::from(SqliteError::new(&self.path, error)))?;
        let result = work(&mut connection);
        if let Some(mut idle) = self.idle() {
            idle.push(connection);
        }
        result
    }

    fn idle(&self) -> Option<std::sync::MutexGuard<'_, Vec<Connection>>> {
        let readers = self.readers.as_ref()?;
        Some(readers.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs a statement that does its work row by row.
fn run_to_end(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
