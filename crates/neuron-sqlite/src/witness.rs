//! The witness of a database, a small file beside it from which the loss of commits is noticed.
//!
//! SQLite takes a log that is missing, cut or changed for a log that ends earlier, and a missing database for a new
//! one. So every write counts itself in the database, in the table `neuron_commits`. After a commit that is synced, the
//! writer notes the number in the witness. A database whose number is lower than the witness's has lost commits.
//!
//! The witness never runs ahead. A process or machine that stops between a commit and its note leaves a witness that is
//! behind, which is no error. So a note needs no sync, unless its commit must not be lost unnoticed: that of an effect
//! that must not happen twice, say. With [`Synchronous::Normal`] a commit is not synced, and is not noted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _};

use crate::{SqliteError, SqliteOptions, Synchronous, open_files};

/// The file has a line for each of the last commits, so that two writers do not write to one place. A line never
/// crosses a sector of a disk, which is written as a whole.
const LINES: u64 = 8;
const LINE: usize = 64;

/// Maximum number of reads of a line that another process may be writing.
const READS: usize = 100;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS neuron_commits (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL
) STRICT";

/// Accepts a database that is older than its witness, by removing the witness.
///
/// Call it after a backup was restored in the place of a newer database, or to go on without the commits that are lost.
/// It is the answer to [`SqliteError::Lost`]. No process may have the database open.
///
/// # Errors
///
/// The file system's. It is no error if there is no witness.
pub fn accept_older(path: impl AsRef<Path>) -> io::Result<()> {
    match fs::remove_file(witness_path(&open_files::real_path(path.as_ref()))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn witness_path(database: &Path) -> PathBuf {
    open_files::beside(database, "-witness")
}

/// The witness of a database.
#[derive(Debug, Clone)]
pub(crate) struct Witness {
    database: PathBuf,
    path: PathBuf,
    synchronous: Synchronous,
}

impl Witness {
    pub(crate) fn of(database: &Path, options: &SqliteOptions) -> Self {
        let path = witness_path(&open_files::real_path(database));
        Self { database: database.into(), path, synchronous: options.synchronous }
    }

    /// Returns the number of a commit that the database must have, 0 if there is no witness. It is read before a
    /// transaction begins, because others commit meanwhile.
    pub(crate) fn seen(&self) -> Result<u64, SqliteError> {
        let mut damage = String::new();
        for _ in 0..READS {
            match fs::read(&self.path) {
                Ok(bytes) => match newest(&bytes) {
                    Some(number) => return Ok(number),
                    None => damage = format!("it has {} bytes", bytes.len()),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
                Err(source) => return Err(self.fail(source)),
            }
        }
        let reason = format!(
            "the commits that the database must have are not known ({damage}); if the database is whole, \
             call `accept_older` or delete the file"
        );
        Err(SqliteError::Corrupt { path: self.path.clone(), reason, source: None })
    }

    /// Fails if the database file is missing or empty and should not be.
    pub(crate) fn check_file(&self) -> Result<(), SqliteError> {
        match fs::metadata(&self.database) {
            Ok(metadata) if metadata.len() > 0 => Ok(()),
            _ => self.check_number(0, self.seen()?),
        }
    }

    /// Fails if a database that is being opened has lost commits. Changes nothing.
    pub(crate) fn check_opening(&self, connection: &Connection) -> Result<(), SqliteError> {
        let fail = |error| SqliteError::new(&self.database, error);
        let seen = self.seen()?;
        let is_counting = connection.table_exists(None, "neuron_commits").map_err(fail)?;
        let number = if is_counting { number(connection).map_err(fail)? } else { 0 };
        self.check_number(number, seen)
    }

    /// Makes the table in which commits are counted.
    pub(crate) fn set_up(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch(TABLE)
    }

    /// Fails if a transaction lacks a commit that was [seen](Self::seen) before it began.
    pub(crate) fn check(&self, transaction: &Connection, seen: u64) -> Result<(), SqliteError> {
        let number =
            number(transaction).map_err(|error| SqliteError::new(&self.database, error))?;
        self.check_number(number, seen)
    }

    fn check_number(&self, found: u64, expected: u64) -> Result<(), SqliteError> {
        match found < expected {
            true => Err(SqliteError::Lost {
                path: self.database.clone(),
                witness: self.path.clone(),
                found,
                expected,
            }),
            false => Ok(()),
        }
    }

    /// Counts a transaction that is about to be committed, and returns its number.
    pub(crate) fn count(&self, transaction: &Connection) -> rusqlite::Result<u64> {
        let mut count = transaction.prepare_cached(
            "INSERT INTO neuron_commits (id, number) VALUES (1, 1)
             ON CONFLICT (id) DO UPDATE SET number = number + 1 RETURNING number",
        )?;
        count.query_row([], |row| row.get(0))
    }

    /// Notes that a transaction was committed. It is committed even if this fails: the witness is then behind.
    pub(crate) fn note(&self, number: u64) {
        if self.synchronous == Synchronous::Full
            && let Err(error) = self.write(number)
        {
            tracing::warn!(path = %self.path.display(), %error, "the witness of a database is behind");
        }
    }

    /// Syncs the notes.
    pub(crate) fn sync(&self) -> Result<(), SqliteError> {
        if self.synchronous != Synchronous::Full {
            return Ok(());
        }
        let opened = OpenOptions::new().write(true).open(&self.path);
        opened.and_then(|file| file.sync_data()).map_err(|source| self.fail(source))
    }

    fn write(&self, number: u64) -> io::Result<()> {
        let mut file = match OpenOptions::new().write(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create()?,
            opened => opened?,
        };
        let at = number % LINES * LINE as u64;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(line(number).as_bytes())
    }

    /// Makes a witness of nothing. It has its whole length from the start, so that no crash leaves a part of it.
    fn create(&self) -> io::Result<File> {
        let unfinished = open_files::beside(&self.path, &format!("-{}", std::process::id()));
        let mut file = File::create(&unfinished)?;
        for _ in 0..LINES {
            file.write_all(line(0).as_bytes())?;
        }
        // Whoever may write to the database may write to its witness, as with SQLite's own files.
        file.set_permissions(fs::metadata(&self.database)?.permissions())?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.path)?;
        open_files::sync_folder(&self.path)?;
        Ok(file)
    }

    fn fail(&self, source: io::Error) -> SqliteError {
        SqliteError::Io { path: self.path.clone(), source }
    }
}

/// The number of the last commit.
fn number(connection: &Connection) -> rusqlite::Result<u64> {
    let mut select = connection.prepare_cached("SELECT number FROM neuron_commits WHERE id = 1")?;
    Ok(select.query_row([], |row| row.get(0)).optional()?.unwrap_or_default())
}

/// Formats a number and its complement, so that a changed digit is noticed.
fn line(number: u64) -> String {
    format!("commit {number:020}, complement is {:020}\n", u64::MAX - number)
}

/// The highest number of a witness's lines, if they are all as they were written.
fn newest(bytes: &[u8]) -> Option<u64> {
    if bytes.len() as u64 != LINES * LINE as u64 {
        return None;
    }
    let read = |bytes: &[u8]| {
        let number = str::from_utf8(bytes.get(7..27)?).ok()?.parse().ok()?;
        (line(number).as_bytes() == bytes).then_some(number)
    };
    bytes.chunks(LINE).map(read).try_fold(0, |newest, number| number.map(|n| newest.max(n)))
}
