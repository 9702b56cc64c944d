//! Locks for writers, so that one at a time writes a session, in this process and in others.
//!
//! Those of one process come in the order in which they asked, and wait without a thread. The first of
//! them waits for other processes: at once where the lock is free, else on a thread of its own, which a
//! runtime that shuts down does not wait for. So a process that stands still with a lock keeps others
//! from writing, but not from reading nor from ending.

use std::array;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use neuron_types::StorageError;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use super::path_error::naming;

/// Number of locks. Sessions share them, so that locks of deleted sessions need not be removed.
const LOCKS: usize = 64;

/// The queues of this process, one for each lock.
#[derive(Debug)]
pub(super) struct Locks([Arc<Mutex<()>>; LOCKS]);

impl Default for Locks {
    fn default() -> Self {
        Self(array::from_fn(|_| Arc::default()))
    }
}

/// The right to ask other processes for a lock. Dropping it lets the next one ask.
pub(super) type Turn = Option<OwnedMutexGuard<()>>;

impl Locks {
    /// Waits for whoever asked before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue.
    pub(super) async fn turn(&self, id: &str) -> Turn {
        Some(self.0.get(lock_of(id))?.clone().lock_owned().await)
    }
}

/// A file that one process at a time may lock. Dropping it lets go of the lock.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    is_held: bool,
}

impl Lock {
    /// Opens the lock of a session, and holds it if nobody else does.
    pub(super) fn open(hidden: &Path, id: &str) -> Result<Self, StorageError> {
        let path = hidden.join(format!("{:02}.lock", lock_of(id)));
        loop {
            let file: File = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(naming("open the lock", &path))?;
            let is_held = match file.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) => return Err(naming("lock", &path)(error)),
            };
            let lock = Self { file, path: path.clone(), is_held };
            if !is_held || lock.is_there() {
                return Ok(lock);
            }
        }
    }

    /// Returns `true` if the lock is held.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Waits until nobody else holds it, unless it is held already. It is not held even then if it was
    /// deleted meanwhile: who has waited for it opens the new one.
    ///
    /// # Cancel safety
    ///
    /// A thread waits on with the turn, so that there is one at the most, and then gives both back.
    pub(super) async fn wait(self, turn: Turn) -> Result<(Self, Turn), StorageError> {
        if self.is_held {
            return Ok((self, turn));
        }
        let (sender, receiver) = oneshot::channel();
        let path = self.path.clone();
        let wait = move || {
            let locked = self.file.lock().map_err(naming("lock", &self.path));
            let held = locked.map(|()| (Self { is_held: self.is_there(), ..self }, turn));
            // Whoever is gone does not want it.
            sender.send(held).ok();
        };
        let thread = thread::Builder::new().name("neuron-session-lock".into());
        thread.spawn(wait).map_err(naming("wait for", &path))?;
        receiver.await.unwrap_or_else(|error| Err(StorageError::Other(error.into())))
    }

    /// Returns the path at which a file is written until it is complete. Only the holder of the lock uses it,
    /// so the next write removes the file of a killed process.
    pub(super) fn unfinished(&self) -> PathBuf {
        self.path.with_extension("unfinished")
    }

    /// Returns `true` if the path of the lock still names this file. If the directory was deleted and created
    /// again, other processes hold another file.
    #[cfg(unix)]
    fn is_there(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let (Ok(held), Ok(named)) = (self.file.metadata(), self.path.metadata()) else {
            return false;
        };
        (held.dev(), held.ino()) == (named.dev(), named.ino())
    }

    /// Elsewhere the standard library does not tell.
    #[cfg(not(unix))]
    fn is_there(&self) -> bool {
        true
    }
}

/// Returns the number of a session's lock by FNV-1a, which is the same in every process. Ids that differ only in
/// case may be one file, and share a lock.
fn lock_of(id: &str) -> usize {
    let hash = id.to_lowercase().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The upper bits are mixed best.
    (hash >> 32) as usize % LOCKS
}
