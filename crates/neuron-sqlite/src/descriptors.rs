//! Descriptors of database files that are read beside SQLite.
//!
//! POSIX drops all locks of a process on a file when the process closes any descriptor of the file
//! (<https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_>). SQLite
//! does not notice. Another process then takes the database for unused, and deletes its log. So a descriptor of a
//! database stays open for as long as this process has a connection to the file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads the beginning of a file, up to this many bytes. The descriptor stays open until the last [`Kept`] of the file is
/// dropped.
pub(crate) fn read(path: &Path, length: usize) -> io::Result<(Vec<u8>, Kept)> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::with_capacity(length);
    let read = Read::by_ref(&mut file).take(length as u64).read_to_end(&mut bytes);
    let kept = Kept::of(file);
    read.map(|_| (bytes, kept))
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

    /// The databases of this process.
    static OPEN: LazyLock<Mutex<HashMap<FileId, Entry>>> = LazyLock::new(Mutex::default);

    #[derive(Default)]
    struct Entry {
        users: usize,
        /// Closed with the last user.
        files: Vec<File>,
    }

    /// Says that this process uses a database file. Dropped after the connections to the file.
    #[derive(Debug)]
    pub(crate) struct Kept(Option<FileId>);

    impl Kept {
        /// Keeps a descriptor.
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

        /// Says that the file at this path is used, without a descriptor.
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

/// Elsewhere the locks belong to descriptors.
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
