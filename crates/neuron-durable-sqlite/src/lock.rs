//! The lock of a run, which one context at a time holds, in this process and in others.
//!
//! A run has a lock of the operating system on a file beside the database. A killed process frees its runs at once. A
//! process that is stopped or hangs keeps the lock of the operating system, so the lock is also a lease: the file has the
//! length of the lease, and its holder renews the lease by the file's time of change. A lock whose lease has expired is
//! taken over by replacing the file. A holder whose run has ended lets its lease expire, and takes it back if it goes on.
//!
//! A process also knows its own locks, for systems where a process has none against itself, and for a database in memory,
//! which no other process has.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use neuron_runtime::Moment;
use neuron_sqlite::Database;

use crate::JournalError;

/// Length of a lease unless another one is set.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Time of the file of a lease that its holder let expire. On Windows nobody can read the length in a locked file.
const EXPIRED: SystemTime = SystemTime::UNIX_EPOCH;

/// The locks of a database's runs. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Locks {
    /// None in memory.
    folder: Option<Arc<Path>>,
    held: Arc<Mutex<Held>>,
}

/// The runs that this process holds, by key.
#[derive(Debug, Default)]
struct Held {
    holders: HashMap<i64, Holder>,
    /// The serial number of the next holder.
    next: u64,
}

/// A holder in this process.
#[derive(Debug, Clone, Copy)]
struct Holder {
    serial: u64,
    renewed: Moment,
    lease: Duration,
}

impl Holder {
    fn has_expired(&self) -> bool {
        self.renewed.age() >= self.lease
    }
}

impl Locks {
    /// Returns the locks of a database that is open.
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

    /// Locks a run by its key for the length of a lease. Returns `None` if somebody holds it. Waits for nobody.
    ///
    /// It is called only within a transaction that may write. If the lease of another holder has expired, that transaction
    /// must keep the other holder from writing.
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

    /// Returns `true` if somebody holds a run, and the lease has not expired. Makes no file. As
    /// [`acquire`](Self::acquire), it is called only within a transaction that may write, so that those who ask do not see
    /// each other.
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

    /// Removes the file of a run that was deleted. Nobody locks the run any more, because its key is not used again.
    pub(crate) fn remove(&self, run: i64) {
        if let Some(folder) = &self.folder {
            // What stays is a file without a run.
            let _ = fs::remove_file(path(folder, run));
        }
    }
}

/// The result of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    InTime,
    /// The lease may have expired before, so another holder may be taking over the run.
    Late,
    /// Another holder has taken the run over, or the file of the lock was deleted.
    Lost,
}

/// The right to drive a run, until it is dropped or its lease expires.
#[derive(Debug)]
pub(crate) struct Lock {
    run: i64,
    serial: u64,
    lease: Duration,
    held: Arc<Mutex<Held>>,
    file: Option<(File, PathBuf)>,
}

impl Lock {
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// Renews the lease.
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
            // If this fails the lease ends earlier. The epoch in the database decides then.
            let _ = file.set_modified(SystemTime::now());
            if !is_at(file, path) {
                return Renewal::Lost;
            }
        }
        // The process may have been stopped between the look and the renewal.
        match was_valid && now.age() < self.lease / 2 {
            true => Renewal::InTime,
            false => Renewal::Late,
        }
    }

    /// Lets the lease expire. A renewal takes the run back, unless somebody has taken it over.
    pub(crate) fn expire(&self) {
        if let Some(holder) = lock(&self.held).holders.get_mut(&self.run)
            && holder.serial == self.serial
        {
            holder.lease = Duration::ZERO;
        }
        if let Some((file, _)) = &self.file {
            // If this fails the run is free when the lock is dropped.
            let _ = file.set_modified(EXPIRED);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file first: who finds the run free here finds it free there.
        if let Some((file, _path)) = self.file.take() {
            unlock(&file);
        }
        let mut held = lock(&self.held);
        if held.holders.get(&self.run).is_some_and(|holder| holder.serial == self.serial) {
            held.holders.remove(&self.run);
        }
    }
}

/// Releases the lock. Closing the file is not enough, because a child process inherits the lock between `fork` and
/// `exec`.
fn unlock(file: &File) {
    // Whatever fails here, closing does the rest.
    let _ = file.unlock();
}

fn path(folder: &Path, run: i64) -> PathBuf {
    folder.join(format!("{run}.lock"))
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock_file(
    folder: &Path,
    run: i64,
    lease: Duration,
) -> Result<Option<(File, PathBuf)>, JournalError> {
    fs::create_dir_all(folder).map_err(naming(folder))?;
    let path = path(folder, run);
    loop {
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let mut file = opened.map_err(naming(&path))?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => {
                // From before the length: a short lease must not be read with the time of an earlier holder.
                file.set_modified(SystemTime::now()).map_err(naming(&path))?;
                let length = format!("{}\n", lease.as_millis());
                let written = file.set_len(0).and_then(|()| file.write_all(length.as_bytes()));
                written.map_err(naming(&path))?;
                return Ok(Some((file, path)));
            }
            // It was deleted meanwhile, and perhaps made again by somebody who holds that one.
            Ok(()) => fs::create_dir_all(folder).map_err(naming(folder))?,
            Err(TryLockError::WouldBlock) if has_expired(&path) => {
                // The holder keeps the lock of a file that has no name any more.
                fs::remove_file(&path).map_err(naming(&path))?;
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(naming(&path)(error)),
        }
    }
}

/// Returns `true` if the lease of a file whose lock is held has expired. A file without the length of a lease is that of an
/// older release, and of a holder that is about to write the length.
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

/// Returns `true` if this is the file that has the name now.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(held), Ok(named)) = (file.metadata(), path.metadata()) else {
        return false;
    };
    (held.dev(), held.ino()) == (named.dev(), named.ino())
}

/// Elsewhere the standard library does not tell.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

fn naming(path: &Path) -> impl FnOnce(io::Error) -> JournalError + '_ {
    move |source| JournalError::Lock { path: path.into(), source }
}

#[cfg(test)]
mod tests;
