//! Writes copies of a database while it is in use.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use rusqlite::Connection;

use crate::{SqliteError, open_files};

/// Copies the database of `source` into a new file. The file gets its name `to` once it is complete and synced. `path`
/// is the path of the database, for errors.
pub(crate) fn write(source: &Connection, path: &Path, to: &Path) -> Result<(), SqliteError> {
    let fail = |source| SqliteError::Io { path: to.into(), source };
    let unfinished = open_files::beside(to, "-unfinished");
    // The lock prevents another backup to the same path from renaming this unfinished file.
    let file = lock(&unfinished).map_err(fail)?;
    check_free(to).map_err(fail)?;
    // An interrupted backup may have left content in the file.
    file.set_len(0).map_err(fail)?;
    let copied = copy(source, path, &unfinished).and_then(|()| {
        // `VACUUM INTO` does not sync the new file.
        file.sync_all()
            .and_then(|()| check_free(to))
            .and_then(|()| fs::rename(&unfinished, to))
            .and_then(|()| open_files::sync_folder(to))
            .map_err(fail)
    });
    if copied.is_err() {
        let _ = remove(&unfinished);
    }
    copied
}

/// Checks a database and copies it to the path `to`.
fn copy(source: &Connection, path: &Path, to: &Path) -> Result<(), SqliteError> {
    let fail = |error| SqliteError::new(path, error);
    let utf8 = to.to_str().ok_or_else(|| SqliteError::Io {
        path: to.into(),
        source: io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8"),
    })?;
    // `VACUUM INTO` copies only the rows that it finds in the tables. Without this check, rows that a damaged table
    // lost and only its index still has would be left out silently.
    let check: String =
        source.query_one("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(fail)?;
    if check != "ok" {
        return Err(SqliteError::Corrupt { path: path.into(), reason: check, source: None });
    }
    source.execute("VACUUM INTO ?1", [utf8]).map(drop).map_err(fail)
}

/// Opens and locks the unfinished file, which only its owner can read on Unix. Returns an error if another backup holds
/// the lock.
fn lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let reason = "another backup writes to this path; choose another one";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns an error if there is a file at the path.
fn check_free(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(_) => {
            let reason = "a backup does not replace a file; delete it or choose another path";
            Err(io::Error::new(io::ErrorKind::AlreadyExists, reason))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes a file. A missing file is not an error.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
