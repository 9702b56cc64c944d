//! A database: one connection that writes, some that read, and the queue before them.

use std::fmt;
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use crate::off_executor::off_executor;
use crate::{Abort, Schema, SqliteError, SqliteOptions, connection};

/// A database. Clones share its connections.
///
/// One connection writes and up to [`SqliteOptions::readers`] read beside it. Whoever waits for one
/// waits in order of arrival, and blocks no thread.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    options: SqliteOptions,
    writer: Arc<AsyncMutex<Connection>>,
    /// None in memory, where there is but one connection.
    readers: Option<Readers>,
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
        let asked = path.as_ref().to_owned();
        let stopped = || SqliteError::Stopped { path: asked.clone() };
        let path = asked.clone();
        off_executor(move || Self::open_here(path, &schema, options)).await.ok_or_else(stopped)?
    }

    fn open_here(
        path: PathBuf,
        schema: &Schema,
        options: SqliteOptions,
    ) -> Result<Self, SqliteError> {
        let is_in_memory = path.as_os_str() == ":memory:";
        let (path, writer) = if is_in_memory {
            let writer = connection::open_in_memory(&path, schema, &options)?;
            (path, writer)
        } else {
            // Readers come later, when the working directory may be another one.
            let path = path::absolute(&path).map_err(|source| SqliteError::Io { path, source })?;
            let writer = connection::open(&path, schema, &options)?;
            (path, writer)
        };
        let readers = (!is_in_memory).then(|| Readers {
            permits: Arc::new(Semaphore::new(options.readers)),
            idle: Mutex::default(),
        });
        let writer = Arc::new(AsyncMutex::new(writer));
        Ok(Self { shared: Arc::new(Shared { path, options, writer, readers }) })
    }

    /// Where it is.
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
    /// The work's own; else a [`SqliteError`].
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
        // Is there for as long as somebody waits for the result.
        let caller = Arc::new(());
        let awaited = Arc::downgrade(&caller);
        let result = self.with_writer(move |connection, path| {
            let if_awaited = || match awaited.strong_count() {
                0 => Err(Abort::Own(SqliteError::Stopped { path: path.into() }.into())),
                _ => Ok(()),
            };
            let result = transact(connection, TransactionBehavior::Immediate, |transaction| {
                // It may have waited long for another process.
                if_awaited()?;
                let result = work(transaction)?;
                if_awaited().map(|()| result)
            });
            // What nobody will see is dropped before the next one's turn, with all that it holds.
            result
                .and_then(|result| if_awaited().map(|()| result))
                .map_err(|abort| abort.into_error(path))
        });
        let result = result.await;
        drop(caller);
        result
    }

    /// Runs a transaction that only reads: all that it reads is of one moment.
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
                .with_writer(move |connection, path| {
                    transact(connection, deferred, work).map_err(|abort| abort.into_error(path))
                })
                .await;
        };
        let shared = self.shared.clone();
        // It is never closed, so that there always comes a permit.
        let permit = readers.permits.clone().acquire_owned().await.ok();
        let result = off_executor(move || {
            let _permit = permit;
            shared.with_reader(|connection| transact(connection, deferred, work))
        });
        result.await.ok_or_else(|| self.stopped())?
    }

    /// Gives the space of what was deleted back to the file system.
    ///
    /// # Errors
    ///
    /// A [`SqliteError`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it gives back all or nothing. Nothing but space is lost.
    pub async fn reclaim(&self) -> Result<(), SqliteError> {
        self.with_writer(|connection, path| {
            run_to_end(connection, "PRAGMA incremental_vacuum")
                // The file itself is cut when the log is written back to it.
                .and_then(|()| run_to_end(connection, "PRAGMA wal_checkpoint(PASSIVE)"))
                .map_err(|error| SqliteError::new(path, error))
        })
        .await
    }

    /// Brings what is in the log into the file, and empties the log, so that both together take no more
    /// than they must. What others read or write just now stays in the log. Nothing waits for them.
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
        self.with_writer(move |connection, path| {
            let done = connection
                .busy_timeout(Duration::ZERO)
                .and_then(|()| run_to_end(connection, "PRAGMA wal_checkpoint(TRUNCATE)"));
            connection
                .busy_timeout(patience)
                .and(done)
                .map_err(|error| SqliteError::new(path, error))
        })
        .await
    }

    /// Runs something with the connection that writes, when its turn comes.
    async fn with_writer<T, E>(
        &self,
        work: impl FnOnce(&mut Connection, &Path) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<SqliteError> + Send + 'static,
    {
        let mut connection = self.shared.writer.clone().lock_owned().await;
        let shared = self.shared.clone();
        let result = off_executor(move || work(&mut connection, &shared.path));
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
    /// Runs something with a connection that reads. One whose work panics is closed.
    fn with_reader<T, E: From<SqliteError>>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Abort<E>>,
    ) -> Result<T, E> {
        let idle = self.idle().and_then(|mut idle| idle.pop());
        let opened = match idle {
            Some(connection) => Ok(connection),
            None => connection::open_reader(&self.path, &self.options),
        };
        let mut connection =
            opened.map_err(|error| E::from(SqliteError::new(&self.path, error)))?;
        let result = work(&mut connection).map_err(|abort| abort.into_error(&self.path));
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

/// Runs a transaction to its end; an error or a panic undoes it.
fn transact<T, E>(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, Abort<E>>,
) -> Result<T, Abort<E>> {
    let transaction = connection.transaction_with_behavior(behavior)?;
    let result = work(&transaction)?;
    transaction.commit()?;
    Ok(result)
}

/// Runs a statement that does its work row by row.
fn run_to_end(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
