//! A connection, with its opening and its settings.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use crate::descriptors::Kept;
use crate::witness::Witness;
use crate::{Schema, SqliteError, SqliteOptions, header, open_files};

/// After a large write the log is cut to this size, in bytes, when SQLite begins it anew.
const KEPT_LOG: i64 = 16 << 20;

/// The pause before another try where SQLite itself does not wait.
const PAUSE: Duration = Duration::from_millis(5);

/// Opens a database, checks that it is one of this schema, and brings it up to date. `kept` is to be dropped after all
/// connections to it.
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
    let start = Instant::now();
    loop {
        match set_up_writer(path, schema, options, witness) {
            // The change to the write-ahead log needs the file alone, and does not wait for it.
            Err(SqliteError::Busy { .. }) if start.elapsed() < options.busy_timeout => {
                thread::sleep(PAUSE);
            }
            opened => {
                // Also one that was made by this.
                kept.push(Kept::at(path));
                return opened;
            }
        }
    }
}

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
        // A log that is damaged stays as it is if the connection is closed because of it.
        keep_log(&connection, true).map_err(fail)?;
        witness.check_opening(&connection)?;
        keep_log(&connection, false).map_err(fail)?;
    }
    schema.apply(&mut connection, path)?;
    // After the schema, so that the file itself always says whose it is, and not its log alone.
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
    // The first reading opens the log.
    connection.query_one("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())).map_err(fail)?;
    Ok(connection)
}

/// Says whether the log stays when the connection is closed as the last one.
fn keep_log(connection: &Connection, keeps: bool) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keeps).map(drop)
}

/// Opens a database in memory, which lives as long as its connection.
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

/// Opens another connection to a database that [`open`] has checked, which cannot write.
pub(crate) fn open_reader(path: &Path, options: &SqliteOptions) -> rusqlite::Result<Connection> {
    let connection = open_another(path, options)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Opens another connection to a database that [`open`] has checked.
pub(crate) fn open_another(path: &Path, options: &SqliteOptions) -> rusqlite::Result<Connection> {
    // Not opened as read-only: a reader of the log takes part in its index.
    connect(path, options, OpenFlags::empty())
}

fn connect(path: &Path, options: &SqliteOptions, flags: OpenFlags) -> rusqlite::Result<Connection> {
    // A connection is used by one thread at a time, which its owner sees to.
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    set_up(&connection, options)?;
    Ok(connection)
}

/// Sets the options of a connection. Writes nothing.
fn set_up(connection: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    connection.busy_timeout(options.busy_timeout)?;
    connection.pragma_update(None, "synchronous", options.synchronous.as_sql())?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A file may come from anywhere: its schema runs nothing, and its pages are looked at closely.
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)
}
