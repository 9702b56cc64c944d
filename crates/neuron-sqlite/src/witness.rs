//! The witness of a database ([`Witness`]), which is a small file that detects the loss of commits.
//!
//! If the write-ahead log of a database is missing, cut or changed, SQLite silently ignores the lost part of the log.
//! If the database is missing, SQLite creates a new one. To detect such a loss, each write increments a commit number
//! in the table `neuron_commits`. After each synced commit, the writer stores this number in the witness too. A
//! database with a lower number than its witness has lost commits.
//!
//! The number in the witness may be lower than the number in the database. This happens if the process or the machine
//! stops after a commit and before the witness is written. It is not an error.
//!
//! By default the witness is not synced. A caller that must detect the loss of a certain commit syncs the witness after
//! this commit. An example is a commit before an effect that must not happen twice. With [`Synchronous::Normal`]
//! commits are not synced, and their numbers are not stored in the witness.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _};

use crate::{SqliteError, SqliteOptions, Synchronous, open_files};

/// Number of lines in the witness file. Each line stores a commit number. Consecutive commits use different lines, so
/// that two writers do not write to the same line.
const LINES: u64 = 8;
/// Length in bytes of a line of the witness file, which stores commit numbers.
// The length divides the size of a disk sector. A sector is written as a whole, so no line is half written.
const LINE: usize = 64;

/// Maximum number of attempts to read the witness file, which stores commit numbers. An attempt fails if another
/// process is writing a line.
const READS: usize = 100;

/// Creates the table with the number of the last commit.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS neuron_commits (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL
) STRICT";

/// Accepts a database that has lost commits. Deletes the witness of the database, which is the file that counts the
/// commits.
///
/// Call this function after [`SqliteError::Lost`] if the older state is wanted, for example after a backup was
/// restored. No process may have the database open.
///
/// # Errors
///
/// Returns an error if the witness cannot be deleted. A missing witness is not an error.
pub fn accept_older(path: impl AsRef<Path>) -> io::Result<()> {
    match fs::remove_file(witness_path(&open_files::real_path(path.as_ref()))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the path of a database's witness file, which has the ending `-witness`.
fn witness_path(database: &Path) -> PathBuf {
    open_files::beside(database, "-witness")
}

/// The witness file beside a database, which stores the number of the last commit to detect lost commits.
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

    /// Returns the commit number in the witness file, or 0 if there is no witness file. A database with a lower number
    /// has lost commits.
    ///
    /// Call this method before a transaction begins. During the transaction, other processes may commit and increase
    /// the number in the witness file.
    pub(crate) fn seen(&self) -> Result<u64, SqliteError> {
        let mut damage = String::new();
        // Another process may be writing a line, so an invalid file is read again.
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

    /// Returns an error if the database file is missing or empty although the witness file has counted commits.
    pub(crate) fn check_file(&self) -> Result<(), SqliteError> {
        match fs::metadata(&self.database) {
            Ok(metadata) if metadata.len() > 0 => Ok(()),
            _ => self.check_number(0, self.seen()?),
        }
    }

    /// Returns an error if a database that is being opened has lost commits. This check changes nothing.
    pub(crate) fn check_opening(&self, connection: &Connection) -> Result<(), SqliteError> {
        let fail = |error| SqliteError::new(&self.database, error);
        let seen = self.seen()?;
        let is_counting = connection.table_exists(None, "neuron_commits").map_err(fail)?;
        let number = if is_counting { number(connection).map_err(fail)? } else { 0 };
        self.check_number(number, seen)
    }

    /// Creates the table of the commit number if it does not exist.
    pub(crate) fn set_up(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute_batch(TABLE)
    }

    /// Returns an error if a transaction's commit number is lower than `seen`, which [`seen`](Self::seen) returned
    /// before the transaction began.
    pub(crate) fn check(&self, transaction: &Connection, seen: u64) -> Result<(), SqliteError> {
        let number =
            number(transaction).map_err(|error| SqliteError::new(&self.database, error))?;
        self.check_number(number, seen)
    }

    /// Returns [`SqliteError::Lost`] if the number in the database is lower than the expected number.
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

    /// Increments the commit number in a transaction that is about to be committed. Returns the new number.
    pub(crate) fn count(&self, transaction: &Connection) -> rusqlite::Result<u64> {
        let mut count = transaction.prepare_cached(
            "INSERT INTO neuron_commits (id, number) VALUES (1, 1)
             ON CONFLICT (id) DO UPDATE SET number = number + 1 RETURNING number",
        )?;
        count.query_row([], |row| row.get(0))
    }

    /// Writes the number of a commit to the witness file. A failure is only logged, because the commit has already
    /// happened. A lower number in the witness file is not an error.
    pub(crate) fn note(&self, number: u64) {
        if self.synchronous == Synchronous::Full
            && let Err(error) = self.write(number)
        {
            tracing::warn!(path = %self.path.display(), %error, "the witness of a database is behind");
        }
    }

    /// Syncs the witness file, which stores the number of the last commit, to the disk. Does nothing with
    /// [`Synchronous::Normal`].
    pub(crate) fn sync(&self) -> Result<(), SqliteError> {
        if self.synchronous != Synchronous::Full {
            return Ok(());
        }
        let opened = OpenOptions::new().write(true).open(&self.path);
        opened.and_then(|file| file.sync_data()).map_err(|source| self.fail(source))
    }

    /// Writes a commit number to one of the lines of the witness file. Creates the file if it does not exist.
    fn write(&self, number: u64) -> io::Result<()> {
        let mut file = match OpenOptions::new().write(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create()?,
            opened => opened?,
        };
        let at = number % LINES * LINE as u64;
        file.seek(SeekFrom::Start(at))?;
        file.write_all(line(number).as_bytes())
    }

    /// Creates a witness file with the commit number 0. The file is written under another name and then renamed, so a
    /// crash never leaves an incomplete witness file.
    fn create(&self) -> io::Result<File> {
        let unfinished = open_files::beside(&self.path, &format!("-{}", std::process::id()));
        let mut file = File::create(&unfinished)?;
        for _ in 0..LINES {
            file.write_all(line(0).as_bytes())?;
        }
        // Users who may write to the database must be able to write to its witness, as with SQLite's own files.
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

/// Returns the number of the last commit in the database, or 0 before the first commit.
fn number(connection: &Connection) -> rusqlite::Result<u64> {
    let mut select = connection.prepare_cached("SELECT number FROM neuron_commits WHERE id = 1")?;
    Ok(select.query_row([], |row| row.get(0)).optional()?.unwrap_or_default())
}

/// Formats a line of the witness file with a commit number and the complement of this number. A reader compares both to
/// find a damaged digit.
fn line(number: u64) -> String {
    format!("commit {number:020}, complement is {:020}\n", u64::MAX - number)
}

/// Returns the highest commit number in the lines of a witness file. Returns `None` if any line is not valid.
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
