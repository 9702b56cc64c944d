//! Who drives a run: one context at a time, in this process and in others.
//!
//! The lock is the operating system's, on a file beside the database, so that a process that was killed holds
//! nothing. A process also knows its own locks, for systems where a process has none against itself, and for a
//! database in memory, which no other process has.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_sqlite::Database;

use crate::JournalError;

/// The locks of a database's runs. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Locks {
    /// None in memory.
    folder: Option<Arc<Path>>,
    held: Arc<Mutex<HashSet<i64>>>,
}

impl Locks {
    /// Those of a database that is open.
    pub(crate) fn of(database: &Database) -> Result<Self, JournalError> {
        let path = database.path();
        if path.as_os_str() == ":memory:" {
            return Ok(Self { folder: None, held: Arc::default() });
        }
        // Whoever comes by another name finds the same folder.
        let real = fs::canonicalize(path);
        let mut folder = real.map_err(naming(path))?.into_os_string();
        folder.push(".locks");
        Ok(Self { folder: Some(PathBuf::from(folder).into()), held: Arc::default() })
    }

    /// Locks a run by its key; none if it is locked. Waits for nobody. It is called only within a transaction
    /// that may write.
    pub(crate) fn acquire(&self, run: i64) -> Result<Option<Lock>, JournalError> {
        if !held(&self.held).insert(run) {
            return Ok(None);
        }
        // From here on dropping it gives it back.
        let mut lock = Lock { run, held: self.held.clone(), file: None };
        if let Some(folder) = &self.folder {
            match lock_file(folder, run)? {
                Some(file) => lock.file = Some(file),
                None => return Ok(None),
            }
        }
        Ok(Some(lock))
    }

    /// Whether somebody drives a run. Makes no file. As [`acquire`](Self::acquire), it is called only within a
    /// transaction that may write, so that those who ask do not see each other.
    pub(crate) fn is_held(&self, run: i64) -> Result<bool, JournalError> {
        if held(&self.held).contains(&run) {
            return Ok(true);
        }
        let Some(folder) = &self.folder else {
            return Ok(false);
        };
        let path = path(folder, run);
        let file = match OpenOptions::new().write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(naming(&path)(error)),
        };
        match file.try_lock() {
            Ok(()) => {
                unlock(&file);
                Ok(false)
            }
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(naming(&path)(error)),
        }
    }
}

/// The right to drive a run, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    run: i64,
    held: Arc<Mutex<HashSet<i64>>>,
    file: Option<(File, PathBuf)>,
}

impl Lock {
    /// Removes the file of a run that is gone.
    pub(crate) fn remove(mut self) {
        if let Some((file, path)) = self.file.take() {
            // What stays is an empty file.
            let _ = fs::remove_file(path);
            unlock(&file);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file first: who finds the run free here finds it free there.
        if let Some((file, _path)) = self.file.take() {
            unlock(&file);
        }
        held(&self.held).remove(&self.run);
    }
}

/// To close a file is not enough: a process that another thread starts has it too until its program begins, and
/// the lock with it.
fn unlock(file: &File) {
    // Whatever fails here, closing does the rest.
    let _ = file.unlock();
}

fn path(folder: &Path, run: i64) -> PathBuf {
    folder.join(format!("{run}.lock"))
}

fn held(held: &Mutex<HashSet<i64>>) -> MutexGuard<'_, HashSet<i64>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock_file(folder: &Path, run: i64) -> Result<Option<(File, PathBuf)>, JournalError> {
    fs::create_dir_all(folder).map_err(naming(folder))?;
    let path = path(folder, run);
    loop {
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = opened.map_err(naming(&path))?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => return Ok(Some((file, path))),
            // It was deleted meanwhile, and perhaps made again by somebody who holds that one.
            Ok(()) => fs::create_dir_all(folder).map_err(naming(folder))?,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(naming(&path)(error)),
        }
    }
}

/// Whether this is the file that has the name now.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(held), Ok(named)) = (file.metadata(), path.metadata()) else {
        return false;
    };
    (held.dev(), held.ino()) == (named.dev(), named.ino())
}

/// Elsewhere the standard library does not tell, and a file that is open cannot be deleted.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

fn naming(path: &Path) -> impl FnOnce(io::Error) -> JournalError + '_ {
    move |source| JournalError::Lock { path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that ended could not be opened again at once where a tool of another run started a program at this
    /// moment: the new process had all our files, the locks with them, until its program began.
    #[test]
    fn a_lock_ends_with_its_holder_though_a_process_that_starts_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let locks = Locks { folder: Some(folder.path().into()), held: Arc::default() };
        let lock = locks.acquire(7).unwrap().unwrap();
        assert!(locks.is_held(7).unwrap());
        // As a process has it between its start and that of its program.
        let inherited = lock.file.as_ref().unwrap().0.try_clone().unwrap();
        drop(lock);
        assert!(!locks.is_held(7).unwrap());
        assert!(locks.acquire(7).unwrap().is_some());
        drop(inherited);
    }
}
