//! Checks the header of a database file before SQLite opens the file. SQLite itself might change a file of another
//! application, because it repairs and completes files.

use std::fs;
use std::io;
use std::path::Path;

use crate::descriptors::{self, Kept};
use crate::{Schema, SqliteError, open_files};

/// Length in bytes of the [header](https://sqlite.org/fileformat2.html#the_database_header) of a database.
const LENGTH: usize = 100;
/// First bytes of every database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Returns an error if the file at `path` is not a database of this schema, or has a newer version. Accepts a missing
/// file. Changes nothing. Adds the opened descriptor to `kept`, which the caller must drop after SQLite's connections.
pub(crate) fn inspect(
    path: &Path,
    schema: &Schema,
    kept: &mut Vec<Kept>,
) -> Result<(), SqliteError> {
    match verdict(path, schema, kept) {
        // Another process may have created or changed the database during the check, so an error is checked again.
        Err(_) => verdict(path, schema, kept),
        whole => whole,
    }
}

/// Checks a file as [`inspect`] does, but without repeating the check after an error.
fn verdict(path: &Path, schema: &Schema, kept: &mut Vec<Kept>) -> Result<(), SqliteError> {
    let fail = |source| SqliteError::Io { path: path.into(), source };
    let no_database =
        |reason: &str| Err(SqliteError::NotADatabase { path: path.into(), reason: reason.into() });
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return check_log(path, "missing");
        }
        Err(error) => return Err(fail(error)),
    };
    if metadata.is_dir() {
        return no_database("it is a directory");
    }
    if !metadata.is_file() {
        return no_database("it is no regular file");
    }
    let (header, descriptor) = descriptors::read(path, LENGTH).map_err(fail)?;
    kept.push(descriptor);
    if header.is_empty() {
        return check_log(path, "empty");
    }
    let Some(fields) = Fields::of(&header) else {
        let is_part = MAGIC.starts_with(&header) || header.starts_with(MAGIC);
        // An empty header with a journal is a creation in progress or an interrupted one. SQLite completes or undoes
        // it.
        return match header.iter().all(|byte| *byte == 0) && has_content(path, "-journal") {
            true => Ok(()),
            false if is_part => Err(cut(path, header.len() as u64, LENGTH as u64)),
            false => no_database("it does not begin as one"),
        };
    };
    schema.check(fields.application_id, fields.version, path)?;
    if metadata.permissions().readonly() {
        return Err(SqliteError::ReadOnly { path: path.into(), source: None });
    }
    // The length is read again, because another process may have extended the file since. With a log or a journal, the
    // page count in the header may exceed the file, and SQLite handles this.
    let length = fs::metadata(path).map_err(fail)?.len();
    match fields.length {
        Some(expected) if length < expected && !is_unsettled(path) => {
            Err(cut(path, length, expected))
        }
        _ => Ok(()),
    }
}

/// Returns an error if there is a write-ahead log although the database file is missing or empty. `state` is `missing`
/// or `empty`, for the error's text.
fn check_log(path: &Path, state: &str) -> Result<(), SqliteError> {
    match has_content(path, "-wal") {
        true => Err(SqliteError::Corrupt {
            path: path.into(),
            reason: format!("it is {state}, but its log is not"),
            source: None,
        }),
        false => Ok(()),
    }
}

/// Returns `true` if the database file may lack a part of the last write. This is the case if the rollback journal or
/// the write-ahead log beside it is not empty.
fn is_unsettled(path: &Path) -> bool {
    ["-journal", "-wal"].iter().any(|ending| has_content(path, ending))
}

/// Returns `true` if SQLite's file beside the database with this ending, such as `-wal`, exists and is not empty.
fn has_content(path: &Path, ending: &str) -> bool {
    fs::metadata(open_files::beside(path, ending)).is_ok_and(|metadata| metadata.len() > 0)
}

/// Returns the error for a file that is shorter than its header says.
fn cut(path: &Path, length: u64, expected: u64) -> SqliteError {
    let reason = format!("it is cut short: {length} of {expected} bytes");
    SqliteError::Corrupt { path: path.into(), reason, source: None }
}

/// The fields of a database header that are checked.
struct Fields {
    /// SQLite's `application_id`.
    application_id: i32,
    /// SQLite's `user_version`.
    version: i32,
    /// Length of the file in bytes. `None` if an older program changed the file without updating its page count.
    length: Option<u64>,
}

impl Fields {
    /// Parses a header. Returns `None` if the bytes are not the header of a database.
    fn of(header: &[u8]) -> Option<Self> {
        if header.len() < LENGTH || !header.starts_with(MAGIC) {
            return None;
        }
        let four = |at| header.get(at..).and_then(|rest| rest.first_chunk().copied());
        let unsigned = |at| four(at).map(u32::from_be_bytes);
        let signed = |at| four(at).map(i32::from_be_bytes);
        let page_size = match header.get(16..).and_then(|rest| rest.first_chunk().copied()) {
            Some([0, 1]) => 65_536,
            Some(size) => u64::from(u16::from_be_bytes(size)),
            None => return None,
        };
        // The page count is valid only if the last change also wrote it. The two change counters are equal then.
        let is_sure = unsigned(24)? == unsigned(92)?;
        let pages = u64::from(unsigned(28)?);
        Some(Self {
            application_id: signed(68)?,
            version: signed(60)?,
            length: is_sure.then_some(pages * page_size),
        })
    }
}
