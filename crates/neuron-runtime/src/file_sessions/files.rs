//! A session's file, while nobody else writes it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use neuron_types::{Message, Session, SessionRevision, SessionState, StorageError};

use super::batches::FOLLOWED;
use super::blocking::Caller;
use super::directory::Directory;
use super::locks::{Lock, Turn};
use super::path_error::naming;

/// The right to write a session's file. Dropping it lets the next one write.
pub(super) struct LockedFile {
    id: String,
    directory: Directory,
    path: PathBuf,
    lock: Lock,
    /// Dropped after the lock, which the next one then finds free.
    _turn: Turn,
}

impl LockedFile {
    pub(super) fn new(id: String, directory: Directory, lock: Lock, turn: Turn) -> Self {
        let path = directory.file(&id);
        Self { id, directory, path, lock, _turn: turn }
    }

    /// Reads the session. `None` if there is none. A whole session may be overwritten.
    pub(super) fn load(&self) -> Result<Option<(Session, SessionRevision)>, StorageError> {
        self.directory.load(&self.id)
    }

    /// Reads the session that is there, if it has the revision expected.
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

    /// Appends a batch to the file, if the file has the revision expected. Returns `false` if the file must be rewritten
    /// instead.
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
        // A file that only its owner may replace can be read-only.
        let Ok(mut file) = OpenOptions::new().write(true).open(&self.path) else {
            return Ok(false);
        };
        caller.check()?;
        let written = file
            .seek(SeekFrom::Start(length))
            .and_then(|_| file.write_all(&batch))
            .and_then(|()| file.sync_data());
        if let Err(error) = written {
            // An incomplete batch is left out by readers, a complete one is not.
            let _ = file.set_len(length);
            return Err(naming("append to", &self.path)(error));
        }
        // The batch is stored. Without the flag only its later loss would not be noticed.
        let _ = file
            .seek(SeekFrom::Start(length.saturating_sub(1)))
            .and_then(|_| file.write_all(&[FOLLOWED]));
        Ok(true)
    }

    /// Replaces the file as a whole or not at all. It is not replaced if the caller is gone.
    pub(super) fn replace(&self, json: &[u8], caller: &Caller) -> Result<(), StorageError> {
        let unfinished = self.lock.unfinished();
        let written = self.write(&unfinished, json).map_err(naming("write", &self.path));
        let renamed = written.and_then(|()| {
            caller.check()?;
            fs::rename(&unfinished, &self.path).map_err(naming("replace", &self.path))
        });
        if renamed.is_err() {
            // It may hold a full disk.
            let _ = fs::remove_file(&unfinished);
        }
        renamed?;
        sync_directory(self.directory.path())
    }

    fn write(&self, unfinished: &Path, json: &[u8]) -> io::Result<()> {
        match fs::remove_file(unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // New, so that it follows no link out of the directory.
        let mut file = OpenOptions::new().write(true).create_new(true).open(unfinished)?;
        if let Ok(before) = fs::metadata(&self.path) {
            // Who may read it was perhaps decided by hand.
            file.set_permissions(before.permissions())?;
        }
        file.write_all(json)?;
        file.sync_all()
    }

    /// Deletes the session that is there, damaged or not.
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

/// Returns `true` if a file is no link and has no other name. A batch would change the file under its other names too.
fn is_only_name(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return false;
    };
    #[cfg(unix)]
    let is_only = std::os::unix::fs::MetadataExt::nlink(&metadata) == 1;
    // The standard library does not tell.
    #[cfg(not(unix))]
    let is_only = false;
    metadata.is_file() && is_only
}

/// Opens a session's file for reading. `None` if there is no file.
///
/// What is no file is refused unopened: a pipe would let a reader wait for ever, and a device may have no
/// end.
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

/// Makes the names in a directory last. Elsewhere than on Unix that cannot be asked for.
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
    async fn a_write_whose_caller_is_gone_changes_nothing_and_leaves_nothing() {
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
