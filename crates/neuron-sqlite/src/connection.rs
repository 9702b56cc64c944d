//! Opens connections to a database and sets their options.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use crate::descriptors::{self, Kept};
use crate::witness::Witness;
use crate::{Schema, SqliteError, SqliteOptions, header, open_files};

/// Size in bytes to which SQLite cuts a larger write-ahead log file before it writes the file from the start again.
const KEPT_LOG: i64 = 16 << 20;

/// Delay before a retry in cases where SQLite itself does not wait.
const PAUSE: Duration = Duration::from_millis(5);

/// Opens the connection for writing. Checks the schema of the database and migrates the database. Creates the folder of
/// a new database.
///
/// Adds file descriptors that must stay open to `kept`. The caller must drop `kept` after all connections.
pub(crate) fn open(
    path: &Path,
    schema: &Schema,
    options: &SqliteOptions,
    witness: Option<&Witness>,
    kept: &mut Vec<Kept>,
) -> Result<Connection, SqliteError> {
    open_files::check_links(path)?;
    header::inspect(path, schema, kept)?;
    if let Some(witness) = witness {
        witness.check_file()?;
    }
    open_files::make_folder(path)?;
    if !path.exists() {
        // SQLite itself would let every user read the new file. If this fails, SQLite reports the reason.
        kept.extend(descriptors::create(path).ok());
    }
    let start = Instant::now();
    loop {
        match set_up_writer(path, schema, options, witness) {
            // The switch to a write-ahead log requires exclusive access, for which SQLite does not wait.
            Err(SqliteError::Busy { .. }) if start.elapsed() < options.busy_timeout => {
                thread::sleep(PAUSE);
            }
            opened => {
                // The database may have been created by this call.
                kept.push(Kept::at(path));
                return opened;
            }
        }
    }
}

/// Opens the connection that writes, without retries.
fn set_up_writer(
    path: &Path,
    schema: &Schema,
    options: &SqliteOptions,
    witness: Option<&Witness>,
) -> Result<Connection, SqliteError> {
    let fail = |error| SqliteError::new(path, error);
    let mut connection = connect(path, options, OpenFlags::SQLITE_OPEN_CREATE).map_err(fail)?;
    if connection.is_readonly(MAIN_DB).map_err(fail)? {
        return Err(SqliteError::ReadOnly { path: path.into(), source: None });
    }
    if let Some(witness) = witness {
        // If the check fails, closing the connection must not change the damaged log.
        keep_log(&connection, true).map_err(fail)?;
        witness.check_opening(&connection)?;
        keep_log(&connection, false).map_err(fail)?;
    }
    schema.apply(&mut connection, path)?;
    // WAL mode is set after the schema. The application id is then in the database file itself and not only in the log.
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
        .map_err(fail)?;
    if mode != "wal" {
        let reason = "the file system does not support a write-ahead log";
        return Err(SqliteError::Io {
            path: path.into(),
            source: std::io::Error::new(std::io::ErrorKind::Unsupported, reason),
        });
    }
    connection.pragma_update(None, "journal_size_limit", KEPT_LOG).map_err(fail)?;
    if let Some(witness) = witness {
        witness.set_up(&connection).map_err(fail)?;
    }
    // The first read creates the log file, which `OpenFiles` must find.
    connection.query_one("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(fail)?;
    Ok(connection)
}

/// Makes SQLite keep the write-ahead log file when the last connection is closed, if `keeps` is `true`.
fn keep_log(connection: &Connection, keeps: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keeps).map(drop)
}

/// Opens a database in memory, which exists as long as its connection.
pub(crate) fn open_in_memory(
    path: &Path,
    schema: &Schema,
    options: &SqliteOptions,
) -> Result<Connection, SqliteError> {
    let fail = |error| SqliteError::new(path, error);
    let mut connection = Connection::open_in_memory().map_err(fail)?;
    set_up(&connection, options).map_err(fail)?;
    schema.apply(&mut connection, path)?;
    Ok(connection)
}

/// Opens another connection to a database that [`open`] has checked. The connection cannot write.
pub(crate) fn open_reader(path: &Path, options: &SqliteOptions) -> rusqlite::Result<Connection> {
    let connection = open_another(path, options)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens another connection, which can also write, to a database that [`open`] has checked.
pub(crate) fn open_another(path: &Path, options: &SqliteOptions) -> rusqlite::Result<Connection> {
    // The connection is not opened as read-only, because readers also write to the index of the log.
    connect(path, options, OpenFlags::empty())
}

/// Opens a connection with these flags and options.
fn connect(path: &Path, options: &SqliteOptions, flags: OpenFlags) -> rusqlite::Result<Connection> {
    // SQLite's own mutex is disabled, because the owner of a connection uses it on one thread at a time.
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    set_up(&connection, options)?;
    Ok(connection)
}

/// Sets the options of a connection. Does not write to the database.
fn set_up(connection: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    connection.busy_timeout(options.busy_timeout)?;
    connection.pragma_update(None, "synchronous", options.synchronous.as_sql())?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A database file may come from an untrusted source. Its schema must not run functions, and its pages are checked.
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)
}
