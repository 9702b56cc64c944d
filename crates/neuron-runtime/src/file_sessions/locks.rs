//! Locks that allow one writer at a time for each session, in this process and in other processes.
//!
//! Writers of one process form a queue, and wait in it without a thread. The first writer of the queue takes the lock
//! file. If another process holds the lock, a separate thread waits for it. A runtime that shuts down does not wait for
//! this thread.
//!
//! A stopped process that holds a lock therefore blocks only writes of other processes. It does not block their reads
//! or their exit.

use std::array;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use neuron_types::StorageError;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use super::path_error::naming;
use super::private;

/// Number of lock files. Sessions share these files, so the deletion of a session deletes no lock file.
const LOCKS: usize = 64;

/// The queues of the writers in this process, one for each lock file.
#[derive(Debug)]
pub(super) struct Locks([Arc<Mutex<()>>; LOCKS]);

impl Default for Locks {
    fn default() -> Self {
        Self(array::from_fn(|_| Arc::default()))
    }
}

/// The right of one writer in this process to take the lock file. Dropping it lets the next writer of the queue
/// continue.
///
/// It is never `None`. The type is an `Option` only because [`Locks::turn`] looks the queue up by an index that could
/// be out of bounds.
pub(super) type Turn = Option<OwnedMutexGuard<()>>;

impl Locks {
    /// Waits until this writer is the first in the queue of this process. Sessions with the same lock file share a
    /// queue.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes this writer from the queue.
    pub(super) async fn turn(&self, id: &str) -> Turn {
        Some(self.0.get(lock_of(id))?.clone().lock_owned().await)
    }
}

/// An open lock file. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    /// Set if this process holds the lock and the path still names this file.
    is_held: bool,
}

impl Lock {
    /// Opens a session's lock file in the folder `hidden`, and takes the lock if no other process holds it.
    pub(super) fn open(hidden: &Path, id: &str) -> Result<Self, StorageError> {
        let path = hidden.join(format!("{:02}.lock", lock_of(id)));
        loop {
            let file: File = private::writing(&path)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(naming("open the lock", &path))?;
            let is_held = match file.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) => return Err(naming("lock", &path)(error)),
            };
            let lock = Self { file, path: path.clone(), is_held };
            // A deleted lock file does not exclude other processes, so the new file is opened.
            if !is_held || lock.is_there() {
                return Ok(lock);
            }
        }
    }

    /// Returns `true` if this process holds the lock.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Waits until this process holds the lock. `turn` is this writer's place in the queue of its process.
    ///
    /// If the lock file was deleted meanwhile, the lock is not held afterwards. The caller must then open the new lock
    /// file.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a thread continues to wait. It then releases the lock and `turn`. It keeps `turn`
    /// until then, so that at most one thread waits for each lock.
    pub(super) async fn wait(self, turn: Turn) -> Result<(Self, Turn), StorageError> {
        if self.is_held {
            return Ok((self, turn));
        }
        let (sender, receiver) = oneshot::channel();
        let path = self.path.clone();
        let wait = move || {
            let locked = self.file.lock().map_err(naming("lock", &self.path));
            let held = locked.map(|()| (Self { is_held: self.is_there(), ..self }, turn));
            // Sending fails if the future was dropped, which also drops the lock and the turn.
            sender.send(held).ok();
        };
        let thread = thread::Builder::new().name("neuron-session-lock".into());
        thread.spawn(wait).map_err(naming("wait for", &path))?;
        receiver.await.unwrap_or_else(|error| Err(StorageError::Other(error.into())))
    }

    /// Returns the path of the unfinished file. A write creates this file, and renames it once it is complete. Only the
    /// holder of the lock uses the path, so the next write can remove a file that a killed process left.
    pub(super) fn unfinished(&self) -> PathBuf {
        self.path.with_extension("unfinished")
    }

    /// Returns `true` if the path of the lock file still names the opened file. It names another file if the directory
    /// was deleted and created again.
    #[cfg(unix)]
    fn is_there(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let (Ok(held), Ok(named)) = (self.file.metadata(), self.path.metadata()) else {
            return false;
        };
        (held.dev(), held.ino()) == (named.dev(), named.ino())
    }

    /// Always returns `true`, because on this system the standard library cannot detect that the path names another
    /// lock file.
    #[cfg(not(unix))]
    fn is_there(&self) -> bool {
        true
    }
}

/// Returns the number of a session's lock file. It is an FNV-1a hash, which is the same in every process. Ids that
/// differ only in case get the same number, because a file system may store them in one file.
fn lock_of(id: &str) -> usize {
    let hash = id.to_lowercase().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The upper bits of FNV-1a are mixed better than the lower ones.
    (hash >> 32) as usize % LOCKS
}
