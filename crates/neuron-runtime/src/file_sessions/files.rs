//! Reads and writes a session's file while its lock is held.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use neuron_types::{Message, Session, SessionRevision, SessionState, StorageError};

use super::batches::FOLLOWED;
use super::blocking::Caller;
use super::directory::Directory;
use super::locks::{Lock, Turn};
use super::path_error::naming;
use super::private;

/// A session's file and its lock. Dropping it releases the lock.
pub(super) struct LockedFile {
    id: String,
    directory: Directory,
    path: PathBuf,
    lock: Lock,
    /// The turn of this writer in the queue of this process. It is dropped after `lock`, so that the next writer finds
    /// the lock free.
    _turn: Turn,
}

impl LockedFile {
    pub(super) fn new(id: String, directory: Directory, lock: Lock, turn: Turn) -> Self {
        let path = directory.file(&id);
        Self { id, directory, path, lock, _turn: turn }
    }

    /// Reads the session. Returns `None` if there is no file. Returns an error if the file is damaged or has a newer
    /// version.
    pub(super) fn load(&self) -> Result<Option<(Session, SessionRevision)>, StorageError> {
        self.directory.load(&self.id)
    }

    /// Reads the session. Returns an error if there is no session, or if its revision is not `expected`.
    pub(super) fn load_expected(
        &self,
        expected: &SessionRevision,
    ) -> Result<Session, StorageError> {
        match self.load()? {
            None => Err(StorageError::NotFound(self.id.clone())),
            Some((_, stored)) if stored != *expected => {
                Err(StorageError::Conflict { id: self.id.clone() })
            }
            Some((session, _)) => Ok(session),
        }
    }

    /// Appends a batch to the file. Returns `false` without a change if the caller must rewrite the file instead.
    /// Returns an error if the file's revision is not `expected`.
    pub(super) fn append(
        &self,
        messages: &[Message],
        state: Option<&SessionState>,
        expected: &SessionRevision,
        revision: &SessionRevision,
        caller: &Caller,
    ) -> Result<bool, StorageError> {
        let Some(outline) = self.directory.outline(&self.id)? else {
            return Err(StorageError::NotFound(self.id.clone()));
        };
        let Some(tip) = outline.tip.filter(|_| is_only_name(&self.path)) else {
            return Ok(false);
        };
        if outline.revision != *expected {
            return Err(StorageError::Conflict { id: self.id.clone() });
        }
        let length = tip.length;
        let Some(batch) = tip.batch(messages, state, revision)? else {
            return Ok(false);
        };
        // A read-only file cannot be appended to, but it can be replaced.
        let Ok(mut file) = OpenOptions::new().write(true).open(&self.path) else {
            return Ok(false);
        };
        caller.check()?;
        let written = file
            .seek(SeekFrom::Start(length))
            .and_then(|_| file.write_all(&batch))
            .and_then(|()| file.sync_data());
        if let Err(error) = written {
            // Readers ignore an incomplete batch, but they would read a complete one.
            let _ = file.set_len(length);
            return Err(naming("append to", &self.path)(error));
        }
        // The batch is stored, so an error of this write is ignored. Without the byte `FOLLOWED` before the batch, a
        // later loss of the batch would not be detected.
        let _ = file
            .seek(SeekFrom::Start(length.saturating_sub(1)))
            .and_then(|_| file.write_all(&[FOLLOWED]));
        Ok(true)
    }

    /// Replaces the file atomically. Returns an error and changes nothing if the caller's future was dropped.
    pub(super) fn replace(&self, json: &[u8], caller: &Caller) -> Result<(), StorageError> {
        let unfinished = self.lock.unfinished();
        let written = self.write(&unfinished, json).map_err(naming("write", &self.path));
        let renamed = written.and_then(|()| {
            caller.check()?;
            fs::rename(&unfinished, &self.path).map_err(naming("replace", &self.path))
        });
        if renamed.is_err() {
            // The unfinished file is removed, because it may fill the disk.
            let _ = fs::remove_file(&unfinished);
        }
        renamed?;
        sync_directory(self.directory.path())
    }

    /// Writes `json` to the path `unfinished` and syncs it. The file gets the permissions of the session's file, or is
    /// private if the session is new.
    fn write(&self, unfinished: &Path, json: &[u8]) -> io::Result<()> {
        match fs::remove_file(unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // `create_new` does not follow a link that leads out of the directory.
        let mut file = private::writing(unfinished).create_new(true).open(unfinished)?;
        if let Ok(before) = fs::metadata(&self.path) {
            // An operator may have changed the permissions of the file, so they are kept.
            file.set_permissions(before.permissions())?;
        }
        file.write_all(json)?;
        file.sync_all()
    }

    /// Deletes the session's file, even if it is damaged. A file of a newer version is not deleted.
    pub(super) fn remove(&self) -> Result<(), StorageError> {
        match self.load() {
            Ok(Some(_)) | Err(StorageError::Corrupt { .. }) => {}
            Ok(None) => return Err(StorageError::NotFound(self.id.clone())),
            Err(error) => return Err(error),
        }
        fs::remove_file(&self.path).map_err(naming("delete", &self.path))?;
        sync_directory(self.directory.path())
    }
}

/// Returns `true` if a path is a regular file with only one hard link. An append to any other file would also change it
/// under its other names.
fn is_only_name(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return false;
    };
    #[cfg(unix)]
    let is_only = std::os::unix::fs::MetadataExt::nlink(&metadata) == 1;
    // The standard library cannot count hard links on other systems.
    #[cfg(not(unix))]
    let is_only = false;
    metadata.is_file() && is_only
}

/// Opens a session's file for reading. Returns `None` if there is no file.
///
/// Returns an error, without opening the path, if it is not a regular file. Opening a pipe could block for ever, and
/// reading a device might never end.
pub(super) fn open(path: &Path) -> Result<Option<File>, StorageError> {
    let opened = fs::metadata(path).and_then(|metadata| match metadata.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is not a regular file")),
    });
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(naming("open", path)(error)),
    }
}

/// Syncs a directory, so that new and renamed files in it survive a crash. Does nothing on other systems than Unix.
pub(super) fn sync_directory(path: &Path) -> Result<(), StorageError> {
    #[cfg(unix)]
    File::open(path).and_then(|directory| directory.sync_all()).map_err(naming("sync", path))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn replace_after_a_dropped_caller_changes_nothing() {
        let name = format!("neuron-gone-caller-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let directory = Directory::new(root.clone());
        let turn = directory.turn("s").await;
        let lock = directory.lock_or_make("s").unwrap();
        let (lock, turn) = lock.wait(turn).await.unwrap();
        let file = LockedFile::new("s".into(), directory, lock, turn);
        fs::write(&file.path, b"first").unwrap();

        let error = file.replace(b"second", &Caller::gone()).unwrap_err();
        assert!(error.to_string().contains("nobody waits"), "{error}");
        assert_eq!(fs::read(&file.path).unwrap(), b"first");
        assert!(!file.lock.unfinished().exists());
        drop(file);
        fs::remove_dir_all(root).unwrap();
    }
}
