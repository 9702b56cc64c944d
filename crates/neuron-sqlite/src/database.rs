//! A database with one connection for writes, several for reads, and a queue of writes ([`Database`]).

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

/// An open database. Clones share its connections.
///
/// One connection writes, and up to [`SqliteOptions::readers`] connections read concurrently. Callers get a connection
/// in the order of their calls. They wait without blocking a thread. Writes that wait at the same time share a
/// transaction and its sync.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    options: SqliteOptions,
    /// The connection that writes. The holder of the lock runs all waiting writes.
    writer: Arc<AsyncMutex<Writer>>,
    /// The writes that wait for the connection.
    writes: Queue,
    /// The connections that read. `None` for a database in memory, which has only one connection.
    readers: Option<Readers>,
    /// Connection for [`Database::read_apart`]. `None` until its first use.
    apart: Mutex<Option<Connection>>,
    files: Files,
    /// Guards that keep the file descriptors of the database open. They must be dropped after all connections, so this
    /// field is declared last.
    _kept: Vec<Kept>,
}

/// The connection that writes.
struct Writer {
    connection: Connection,
    /// Set if the connection syncs its next commit.
    is_synced: bool,
}

/// The checks that run at the start of each transaction.
#[derive(Default)]
pub(crate) struct Files {
    /// The identities of the opened files, to detect that a file was replaced. `None` for a database in memory.
    open: Option<OpenFiles>,
    /// The witness file, which counts commits to detect lost ones. `None` if the database was opened without a witness.
    pub(crate) witness: Option<Witness>,
}

impl Files {
    /// Returns an error if the path of the database or its write-ahead log does not name the open file any more.
    fn check_open(&self) -> Result<(), SqliteError> {
        self.open.as_ref().map_or(Ok(()), OpenFiles::check)
    }

    /// Begins a transaction. Returns an error if the open files were replaced, or if the database has lost commits.
    pub(crate) fn begin<'c>(
        &self,
        path: &Path,
        connection: &'c mut Connection,
        behavior: TransactionBehavior,
    ) -> Result<Transaction<'c>, SqliteError> {
        // Read before the transaction begins. Otherwise a commit of another process during the transaction would look
        // like a loss.
        let seen = self.witness.as_ref().map(Witness::seen).transpose()?;
        let transaction = connection.transaction_with_behavior(behavior);
        let transaction = transaction.map_err(|error| SqliteError::new(path, error))?;
        self.check(&transaction, seen)?;
        Ok(transaction)
    }

    /// Returns an error if the open files were replaced, or if the database has fewer commits than `seen`.
    ///
    /// `seen` is the number of commits in the witness file, which counts commits. `None` skips this comparison.
    fn check(&self, transaction: &Connection, seen: Option<u64>) -> Result<(), SqliteError> {
        self.check_open()?;
        match (&self.witness, seen) {
            (Some(witness), Some(seen)) => witness.check(transaction, seen),
            _ => Ok(()),
        }
    }
}

/// The event that ends a caller's wait for its write.
enum Turn<O, W> {
    /// Another caller has run the write, which has this outcome.
    Ended(O),
    /// This caller has the connection, and runs the waiting writes.
    Begins(W),
}

/// The connections that read. Each is opened at its first use.
struct Readers {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Database {
    /// Opens a database and migrates it to the newest version. Creates the database and its folder if they do not
    /// exist.
    ///
    /// The path `:memory:` opens a database in memory, which exists as long as this value and its clones.
    ///
    /// # Errors
    ///
    /// - [`SqliteError::NotADatabase`], [`SqliteError::OtherApplication`], [`SqliteError::UnsupportedVersion`],
    ///   [`SqliteError::Corrupt`] or [`SqliteError::ReadOnly`] if the file cannot be used. The file is not changed.
    /// - [`SqliteError::Busy`] if another process holds the database.
    /// - [`SqliteError::Io`] if its folder cannot be created.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the database may still be opened. It is then closed again.
    pub async fn open(
        path: impl AsRef<Path>,
        schema: Schema,
        options: SqliteOptions,
    ) -> Result<Self, SqliteError> {
        Self::open_path(path.as_ref(), schema, options, false).await
    }

    /// Opens a database as [`open`](Self::open) does, and detects lost commits.
    ///
    /// If the write-ahead log is missing, cut or damaged, SQLite silently continues with an earlier state. To detect
    /// this, a database that is opened by this method counts its commits. Each writer also writes the count to the
    /// witness, a small file beside the database with the ending `-witness`.
    ///
    /// Opening, reading and writing return an error if the witness has counted more commits than the database. The
    /// reverse is not an error. It happens, for example, after a crash.
    ///
    /// The loss of these commits is not detected, because the witness does not count them:
    ///
    /// - Commits with [`Synchronous::Normal`](crate::Synchronous::Normal), which a power failure may undo.
    /// - Commits through [`open`](Self::open) or by another program.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), and [`SqliteError::Lost`] if commits are missing. To accept the older state,
    /// call [`accept_older`](crate::accept_older).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the database may still be opened. It is then closed again.
    pub async fn open_witnessed(
        path: impl AsRef<Path>,
        schema: Schema,
        options: SqliteOptions,
    ) -> Result<Self, SqliteError> {
        Self::open_path(path.as_ref(), schema, options, true).await
    }

    /// Opens a database outside of the executor. `is_witnessed` is `true` if a witness file should count the commits.
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

    /// Opens a database on the calling thread. `is_witnessed` is `true` if a witness file should count the commits.
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
            // Readers are opened later, when the working directory may have changed, so the path must be absolute.
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

    /// Runs a transaction that may write. The transaction is committed if `work` returns `Ok`, and is undone if `work`
    /// returns an error or panics. A panic is passed on to the caller.
    ///
    /// No other transaction writes at the same time, in this process or another.
    ///
    /// # Errors
    ///
    /// Returns the error of `work`, or a [`SqliteError`] of the transaction. On Unix the error is
    /// [`SqliteError::Replaced`] in these cases, which other systems do not check:
    ///
    /// - The database file or its write-ahead log was deleted or replaced since the database was opened.
    /// - The database file has another hard link.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the commit has begun, the write is not committed. If it is dropped later, the
    /// write is committed completely or not at all. Later writes wait until this is decided.
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

    /// Runs a transaction like [`write`](Self::write), but does not sync its commit. A power failure may undo the write
    /// until a later write is synced.
    ///
    /// # Errors
    ///
    /// The same errors as [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the commit has begun, the write is not committed. If it is dropped later, the
    /// write is committed completely or not at all.
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

    /// Adds a write to the queue, and waits until it has run. If this caller gets the connection first, it runs the
    /// waiting writes.
    async fn enqueue<T, E>(
        &self,
        is_synced: bool,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Abort<E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
    {
        let mut caller = self.shared.writes.caller();
        // Queued first, so that the current holder of the connection may already run it.
        let mut outcome = pin!(self.shared.writes.add(is_synced, work));
        loop {
            let mut writer = pin!(self.shared.writer.clone().lock_owned());
            let turn = poll_fn(|cx| match outcome.as_mut().poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(Turn::Ended(outcome)),
                Poll::Pending => writer.as_mut().poll(cx).map(Turn::Begins),
            });
            match turn.await {
                Turn::Ended(outcome) => {
                    caller.end();
                    return match outcome {
                        Ok(Ok(result)) => result,
                        Ok(Err(payload)) => panic::resume_unwind(payload),
                        Err(_) => Err(self.stopped().into()),
                    };
                }
                Turn::Begins(mut writer) => {
                    let shared = self.shared.clone();
                    // The writes run to their end even if this future is dropped.
                    let ran = off_executor(move || shared.run_writes(&mut writer));
                    ran.await.ok_or_else(|| self.stopped())?;
                }
            }
        }
    }

    /// Runs a transaction that only reads. All of its reads see the same state of the database. They see every earlier
    /// write, even if the future of the write was dropped.
    ///
    /// # Errors
    ///
    /// Returns the error of `work`, or a [`SqliteError`] of the transaction.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the database.
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
        // The semaphore is never closed, so a permit always arrives.
        let permit = readers.permits.clone().acquire_owned().await.ok();
        let result = off_executor(move || {
            let _permit = permit;
            shared.writes.wait_for_dropped();
            shared.with_reader(|connection| shared.transact(connection, deferred, work))
        });
        result.await.ok_or_else(|| self.stopped())?
    }

    /// Syncs the witness to the disk. The [witness](Self::open_witnessed) is the file that counts commits. After the
    /// sync, the loss of an earlier commit is detected even after a power failure. Does nothing without a witness, and
    /// with [`Synchronous::Normal`](crate::Synchronous::Normal).
    ///
    /// # Errors
    ///
    /// [`SqliteError::Io`] if the witness was deleted or cannot be synced.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the witness may or may not be synced.
    pub async fn sync_witness(&self) -> Result<(), SqliteError> {
        if self.shared.files.witness.is_none() {
            return Ok(());
        }
        let shared = self.shared.clone();
        let sync = move || shared.files.witness.as_ref().map_or(Ok(()), Witness::sync);
        off_executor(sync).await.ok_or_else(|| self.stopped())?
    }

    /// Runs a transaction that only reads. It does not wait for pending futures of [`read`](Self::read) or
    /// [`write`](Self::write). Use it where such a future cannot be polled during this call, because
    /// [`read`](Self::read) could then wait for that future for ever.
    ///
    /// Returns `None` if the database is in memory and its only connection is in use.
    ///
    /// # Errors
    ///
    /// Returns the error of `work`, or a [`SqliteError`] of the transaction.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the database.
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

    /// Runs a transaction like [`read_apart`](Self::read_apart), while no other transaction writes. The transaction
    /// sees the result of every write transaction that began earlier.
    ///
    /// Returns `None` if the database is in memory and its only connection is in use.
    ///
    /// # Errors
    ///
    /// Returns the error of `work`, or a [`SqliteError`] of the transaction.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the database.
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

    /// Runs a transaction with a separate connection, for [`read_apart`](Self::read_apart). A database in memory has
    /// only one connection, which is then used. Returns `None` if this connection is in use.
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
            // Either the connection is free, or the call returns immediately. It never waits for a future.
            let Ok(mut writer) = shared.writer.clone().try_lock_owned() else {
                return Ok(None);
            };
            return shared.transact(&mut writer.connection, behavior, work).map(Some);
        }
        let result = off_executor(move || {
            // Only threads hold this lock, and they never wait for a future while they hold it.
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

    /// Returns the space of deleted data from the database file to the file system.
    ///
    /// # Errors
    ///
    /// Returns a [`SqliteError`] if SQLite fails. The file then keeps the space, and no data is lost.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, either all of the space or none of it is returned. No data is lost.
    pub async fn reclaim(&self) -> Result<(), SqliteError> {
        self.with_writer(|connection, shared| {
            run_to_end(connection, "PRAGMA incremental_vacuum")
                // The file is shortened only when its log is written back.
                .and_then(|()| run_to_end(connection, "PRAGMA wal_checkpoint(PASSIVE)"))
                .map_err(|error| SqliteError::new(&shared.path, error))
        })
        .await
    }

    /// Writes a consistent copy of the database to a new file. The database can be read and written during the copy.
    ///
    /// The copy is one file, without a write-ahead log and a witness. It gets its name once it was checked and synced.
    /// Do not copy the database file itself, because this loses the commits in its write-ahead log.
    ///
    /// # Errors
    ///
    /// - [`SqliteError::Io`] if there is already a file at the path, or its folder does not exist.
    /// - [`SqliteError::Corrupt`] or [`SqliteError::Lost`] if the database is damaged.
    ///
    /// After an error there is no new file at the path.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the copy is written completely or not at all.
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
            // Opens a separate connection, because the connections for reads cannot write to any file.
            let opened = connection::open_another(&shared.path, &shared.options);
            let mut connection = opened.map_err(|error| SqliteError::new(&shared.path, error))?;
            shared.files.begin(&shared.path, &mut connection, TransactionBehavior::Deferred)?;
            backup::write(&connection, &shared.path, &to)
        });
        result.await.ok_or_else(|| self.stopped())?
    }

    /// Moves the content of the write-ahead log into the database file and empties the log. Both files then use as
    /// little space as possible. Data that other connections currently read or write stays in the log. The call does
    /// not wait for these connections.
    ///
    /// # Errors
    ///
    /// Returns a [`SqliteError`] if SQLite fails. The log then keeps its space, and no data is lost.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the content is moved completely or not at all. No data is lost.
    pub async fn checkpoint(&self) -> Result<(), SqliteError> {
        let patience = self.shared.options.busy_timeout;
        self.with_writer(move |connection, shared| {
            // No wait for other connections. Their data stays in the log.
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

    /// Runs `work` with the connection that writes, after all earlier callers.
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
    /// Runs the waiting writes. Switches the connection's sync mode if the writes need the other mode.
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

    /// Runs a transaction that only reads, on this connection and with this `behavior`.
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

    /// Runs `work` with a connection that reads. The connection is closed if `work` panics, and is reused otherwise.
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
        // A panic skips the next lines, so the connection is closed.
        let result = work(&mut connection);
        if let Some(mut idle) = self.idle() {
            idle.push(connection);
        }
        result
    }

    /// Locks the list of unused connections that read. Returns `None` for a database in memory.
    fn idle(&self) -> Option<std::sync::MutexGuard<'_, Vec<Connection>>> {
        let readers = self.readers.as_ref()?;
        Some(readers.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs a statement and reads all of its rows. SQLite completes the work of some statements only when their rows are
/// read.
fn run_to_end(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
