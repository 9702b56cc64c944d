//! Keeps the file descriptors of databases open. The crate opens them itself, to read database files without SQLite.
//!
//! On POSIX systems, closing any descriptor of a file releases all locks of the process on this file
//! (<https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_>). SQLite
//! does not notice this. Another process may then treat the database as unused and delete its write-ahead log.
//! Therefore each descriptor stays open as long as this process has a connection to the database.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Reads at most `length` bytes from the start of a file. The file's descriptor stays open until all [`Kept`] values of
/// the file are dropped.
pub(crate) fn read(path: &Path, length: usize) -> io::Result<(Vec<u8>, Kept)> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::with_capacity(length);
    let read = Read::by_ref(&mut file).take(length as u64).read_to_end(&mut bytes);
    let kept = Kept::of(file);
    read.map(|_| (bytes, kept))
}

/// Creates an empty file for a new database. On Unix, only its owner can read the file. SQLite gives the same mode to
/// the write-ahead log and the other files. An existing file keeps its content and its mode.
pub(crate) fn create(path: &Path) -> io::Result<Kept> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(Kept::of)
}

#[cfg(unix)]
pub(crate) use unix::Kept;

#[cfg(unix)]
mod unix {
    use std::collections::HashMap;
    use std::fs::{self, File};
    use std::path::Path;
    use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

    use crate::open_files::FileId;

    /// The database files that this process uses, by file identity.
    static OPEN: LazyLock<Mutex<HashMap<FileId, Entry>>> = LazyLock::new(Mutex::default);

    /// A database file that this process has open.
    #[derive(Default)]
    struct Entry {
        /// Number of [`Kept`] values of the file.
        users: usize,
        /// Open descriptors, closed when the last [`Kept`] is dropped.
        files: Vec<File>,
    }

    /// Registers that this process uses a database file, and keeps its descriptors open. Drop it after all connections
    /// to the file.
    #[derive(Debug)]
    pub(crate) struct Kept(Option<FileId>);

    impl Kept {
        /// Registers a file by an open descriptor, which is kept open.
        pub(super) fn of(file: File) -> Self {
            let Ok(metadata) = file.metadata() else {
                return Self(None);
            };
            let id = FileId::of(&metadata);
            let mut open = lock();
            let entry = open.entry(id).or_default();
            entry.users += 1;
            entry.files.push(file);
            Self(Some(id))
        }

        /// Registers that this process uses the file at a path, without keeping a descriptor of the file open.
        pub(crate) fn at(path: &Path) -> Self {
            let id = fs::metadata(path).ok().map(|metadata| FileId::of(&metadata));
            if let Some(id) = id {
                lock().entry(id).or_default().users += 1;
            }
            Self(id)
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            let Some(id) = self.0 else {
                return;
            };
            let mut open = lock();
            let is_last = open.get_mut(&id).is_some_and(|entry| {
                entry.users -= 1;
                entry.users == 0
            });
            if is_last {
                open.remove(&id);
            }
        }
    }

    fn lock() -> MutexGuard<'static, HashMap<FileId, Entry>> {
        OPEN.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An empty replacement on other systems, where closing one descriptor does not drop the locks of another.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Kept;

#[cfg(not(unix))]
impl Kept {
    fn of(_file: File) -> Self {
        Self
    }

    pub(crate) fn at(_path: &Path) -> Self {
        Self
    }
}
