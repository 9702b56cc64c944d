//! The lock of a run. Only one context holds the lock at a time, among all processes.
//!
//! The lock of a run is a lock of the operating system on a file beside the database. The operating system releases the
//! locks of a killed process immediately.
//!
//! A process that is stopped or hangs keeps its lock, so the lock is also a lease. The file contains the length of the
//! lease, and the holder renews the lease by updating the file's modification time. When the lease has expired, another
//! process can replace the file and thus take the lock over. A holder whose run has ended marks its lease as expired,
//! and renews the lease if the run continues.
//!
//! Each process also has a table of its own locks. The table is needed on systems where a process can lock the same
//! file twice. It is also needed for a database in memory, which has no lock files.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use neuron_durable::Moment;
use neuron_sqlite::Database;

use crate::JournalError;

/// Length of a lease, if no other length is set.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Modification time of a lock file whose lease was ended by its holder. The content of the file cannot be used for
/// this, because on Windows a locked file cannot be read.
const EXPIRED: SystemTime = SystemTime::UNIX_EPOCH;

/// The locks of a database's runs. Clones share the same locks.
#[derive(Debug, Clone)]
pub(crate) struct Locks {
    /// Folder of the lock files. `None` for a database in memory.
    folder: Option<Arc<Path>>,
    held: Arc<Mutex<Held>>,
}

/// The runs that this process holds, by the key of the run's row.
#[derive(Debug, Default)]
struct Held {
    holders: HashMap<i64, Holder>,
    /// Serial number of the next holder. It tells a holder from an earlier holder of the same run.
    next: u64,
}

/// A holder of a run in this process.
#[derive(Debug, Clone, Copy)]
struct Holder {
    serial: u64,
    renewed: Moment,
    lease: Duration,
}

impl Holder {
    /// Returns `true` if the holder has not renewed its lease in time.
    fn has_expired(&self) -> bool {
        self.renewed.age() >= self.lease
    }
}

impl Locks {
    /// Returns the locks of an open database. Fails if the path of the database cannot be resolved.
    pub(crate) fn of(database: &Database) -> Result<Self, JournalError> {
        let path = database.path();
        if path.as_os_str() == ":memory:" {
            return Ok(Self { folder: None, held: Arc::default() });
        }
        // The resolved path is used, so all paths to the same database lead to the same folder.
        let real = fs::canonicalize(path);
        let mut folder = real.map_err(naming(path))?.into_os_string();
        folder.push(".locks");
        Ok(Self { folder: Some(PathBuf::from(folder).into()), held: Arc::default() })
    }

    /// Locks a run for the length of a lease. Returns `None` immediately if another holder has a lease that has not
    /// expired.
    ///
    /// Call this method only inside a write transaction. If the lease of another holder has expired, this transaction
    /// must also prevent further writes by that holder.
    pub(crate) fn acquire(&self, run: i64, lease: Duration) -> Result<Option<Lock>, JournalError> {
        let mut held = lock(&self.held);
        if held.holders.get(&run).is_some_and(|holder| !holder.has_expired()) {
            return Ok(None);
        }
        let file = match &self.folder {
            None => None,
            Some(folder) => match lock_file(folder, run, lease)? {
                Some(file) => Some(file),
                None => return Ok(None),
            },
        };
        let serial = held.next;
        held.next += 1;
        held.holders.insert(run, Holder { serial, renewed: Moment::now(), lease });
        Ok(Some(Lock { run, serial, lease, held: self.held.clone(), file }))
    }

    /// Returns `true` if a context holds the run and its lease has not expired. Creates no file.
    ///
    /// Call this method only inside a write transaction. The check locks the file for a moment, so without the
    /// transaction concurrent checks would detect each other's lock.
    pub(crate) fn is_held(&self, run: i64) -> Result<bool, JournalError> {
        if lock(&self.held).holders.get(&run).is_some_and(|holder| !holder.has_expired()) {
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
            Err(TryLockError::WouldBlock) => Ok(!has_expired(&path)),
            Err(TryLockError::Error(error)) => Err(naming(&path)(error)),
        }
    }

    /// Deletes the lock file of a deleted run. Keys of runs are never reused, so the file is not needed again.
    pub(crate) fn remove(&self, run: i64) {
        if let Some(folder) = &self.folder {
            // If this fails, an unused file is left over.
            let _ = fs::remove_file(path(folder, run));
        }
    }
}

/// The result of [`Lock::renew`], which tells if the context has held the run without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Less than half of the lease had passed since the last renewal, so the context still holds the run.
    InTime,
    /// Half of the lease or more had passed since the last renewal, so the lease may have expired. Another holder may
    /// be taking the run over.
    Late,
    /// Another holder has taken the run over, or the lock file was deleted.
    Lost,
}

/// The right to drive a run, until it is dropped or its lease expires.
#[derive(Debug)]
pub(crate) struct Lock {
    run: i64,
    /// Serial number of this holder in `held`.
    serial: u64,
    lease: Duration,
    held: Arc<Mutex<Held>>,
    /// The locked file and its path. `None` for a database in memory.
    file: Option<(File, PathBuf)>,
}

impl Lock {
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// Renews the lease, and reports if the lease was still valid before.
    pub(crate) fn renew(&self) -> Renewal {
        let now = Moment::now();
        let was_valid = {
            let mut held = lock(&self.held);
            let holder = held.holders.get_mut(&self.run).filter(|held| held.serial == self.serial);
            let Some(holder) = holder else {
                return Renewal::Lost;
            };
            let was_valid = holder.renewed.age() < holder.lease / 2;
            (holder.renewed, holder.lease) = (now, self.lease);
            was_valid
        };
        if let Some((file, path)) = &self.file {
            // If this fails, the lease expires earlier. The epoch in the database then prevents writes of two holders.
            let _ = file.set_modified(SystemTime::now());
            if !is_at(file, path) {
                return Renewal::Lost;
            }
        }
        // The process may have been stopped between the check of the age and the renewal.
        match was_valid && now.age() < self.lease / 2 {
            true => Renewal::InTime,
            false => Renewal::Late,
        }
    }

    /// Ends the lease and keeps the lock. A later renewal takes the run back if no other holder has taken it over.
    pub(crate) fn expire(&self) {
        if let Some(holder) = lock(&self.held).holders.get_mut(&self.run)
            && holder.serial == self.serial
        {
            holder.lease = Duration::ZERO;
        }
        if let Some((file, _)) = &self.file {
            // If this fails, the run becomes free when the lock is dropped.
            let _ = file.set_modified(EXPIRED);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file is unlocked first. A context that finds the run free in the table then finds the file unlocked too.
        if let Some((file, _path)) = self.file.take() {
            unlock(&file);
        }
        let mut held = lock(&self.held);
        if held.holders.get(&self.run).is_some_and(|holder| holder.serial == self.serial) {
            held.holders.remove(&self.run);
        }
    }
}

/// Releases the lock of a file. Closing the file is not enough, because a child process may still have the file open
/// between `fork` and `exec`.
fn unlock(file: &File) {
    // If this fails, closing the file releases the lock.
    let _ = file.unlock();
}

/// Returns the path of a run's lock file.
fn path(folder: &Path, run: i64) -> PathBuf {
    folder.join(format!("{run}.lock"))
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the file of a run and writes the length of the lease into it. Returns `None` if another process holds the lock
/// and its lease has not expired.
fn lock_file(
    folder: &Path,
    run: i64,
    lease: Duration,
) -> Result<Option<(File, PathBuf)>, JournalError> {
    create_folder(folder).map_err(naming(folder))?;
    let path = path(folder, run);
    loop {
        let mut file = open_or_create(folder, &path).map_err(naming(&path))?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => {
                // The time is set before the length is written. Otherwise a new, short lease could be read with the old
                // time of an earlier holder, and would look expired.
                file.set_modified(SystemTime::now()).map_err(naming(&path))?;
                let length = format!("{}\n", lease.as_millis());
                let written = file.set_len(0).and_then(|()| file.write_all(length.as_bytes()));
                written.map_err(naming(&path))?;
                return Ok(Some((file, path)));
            }
            // The file was deleted before it was locked, and another process may hold a new file of the same name.
            Ok(()) => create_folder(folder).map_err(naming(folder))?,
            Err(TryLockError::WouldBlock) if has_expired(&path) => {
                // The old holder keeps its lock on the deleted file, which no path leads to any more.
                fs::remove_file(&path).map_err(naming(&path))?;
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(naming(&path)(error)),
        }
    }
}

/// Creates the folder of the lock files, if it does not exist. Users without access to the database have no access to
/// the folder.
fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        let mode = mode_of_database(folder);
        // Users who may read the database may open the folder.
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode | ((mode & 0o444) >> 2));
    }
    builder.create(folder)
}

/// Opens a lock file, and creates it if it does not exist. Users without access to the database have no access to the
/// file.
fn open_or_create(folder: &Path, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode_of_database(folder));
    #[cfg(not(unix))]
    let _ = folder;
    options.open(path)
}

/// Returns the mode of the database that the folder of lock files belongs to.
#[cfg(unix)]
fn mode_of_database(folder: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    // Without the ending `.locks`.
    let database = fs::metadata(folder.with_extension(""));
    database.map_or(0o600, |metadata| metadata.permissions().mode() & 0o666)
}

/// Returns `true` if the lease of a locked file has expired. Returns `false` if the file contains no length of a lease.
/// Its holder may be about to write the length.
fn has_expired(path: &Path) -> bool {
    let expired = || {
        let renewed = fs::metadata(path).ok()?.modified().ok()?;
        if renewed == EXPIRED {
            return Some(true);
        }
        let lease = fs::read_to_string(path).ok()?.trim_end().parse().ok()?;
        let age = SystemTime::now().duration_since(renewed).ok()?;
        Some(age >= Duration::from_millis(lease))
    };
    expired().unwrap_or(false)
}

/// Returns `true` if `path` still leads to this file, and not to a new file of the same name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(held), Ok(named)) = (file.metadata(), path.metadata()) else {
        return false;
    };
    (held.dev(), held.ino()) == (named.dev(), named.ino())
}

/// Returns `true` as if `path` led to the file, because the standard library can compare files only on Unix.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

/// Returns a function that adds the path to an I/O error.
fn naming(path: &Path) -> impl FnOnce(io::Error) -> JournalError + '_ {
    move |source| JournalError::Lock { path: path.into(), source }
}

#[cfg(test)]
mod tests;
