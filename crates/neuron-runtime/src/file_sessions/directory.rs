//! The directory of the session files and their locks ([`Directory`]).

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use neuron_types::{Session, SessionRevision, SessionSummary, StorageError, check_session_id};

use super::document;
use super::files::{open, sync_directory};
use super::locks::{Lock, Locks, Turn};
use super::outline::{self, Outline};
use super::path_error::naming;
use super::private;

/// Folder for lock files and unfinished files. No session can have this name, because session ids do not start with a
/// full stop.
const HIDDEN: &str = ".neuron";

/// A directory of session files. Clones share the queues in which writers wait.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    path: Arc<Path>,
    locks: Arc<Locks>,
}

impl Directory {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path: path.into(), locks: Arc::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a session's file.
    pub(super) fn file(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}.json"))
    }

    /// Reads a session. Returns `None` if there is no file.
    pub(super) fn load(
        &self,
        id: &str,
    ) -> Result<Option<(Session, SessionRevision)>, StorageError> {
        let path = self.file(id);
        let Some(mut file) = open(&path)? else {
            return Ok(None);
        };
        let mut json = Vec::new();
        file.read_to_end(&mut json).map_err(naming("read", &path))?;
        document::read(&json, id, &path).map(Some)
    }

    /// Reads a session without its messages. Returns `None` if there is no file.
    pub(super) fn outline(&self, id: &str) -> Result<Option<Outline>, StorageError> {
        outline::read(&self.file(id), id)
    }

    /// Returns the summaries of all sessions, sorted by id.
    pub(super) fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            // The directory is created with the first session.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(naming("list", &self.path)(error)),
        };
        let mut summaries = Vec::new();
        for entry in entries {
            let name = entry.map_err(naming("list", &self.path))?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")) else {
                continue;
            };
            if check_session_id(id).is_err() {
                continue;
            }
            match self.outline(id) {
                Ok(Some(outline)) => summaries.push(outline.summary),
                // Another process deleted the session after it was listed.
                Ok(None) => {}
                Err(error) => summaries.push(SessionSummary::damaged(id, &error)),
            }
        }
        summaries.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(summaries)
    }

    /// Waits until no other task of this process writes the session. Dropping the returned turn lets the next task
    /// write.
    pub(super) async fn turn(&self, id: &str) -> Turn {
        self.locks.turn(id).await
    }

    /// Opens the lock of an existing session. Returns an error if there is no such session.
    pub(super) fn lock(&self, id: &str) -> Result<Lock, StorageError> {
        let path = self.file(id);
        // The directory must not be created for a session that does not exist.
        match fs::symlink_metadata(&path) {
            Ok(_) => self.lock_or_make(id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StorageError::NotFound(id.to_owned()))
            }
            Err(error) => Err(naming("open", &path)(error)),
        }
    }

    /// Opens the lock of a session, and creates the directory if it does not exist.
    pub(super) fn lock_or_make(&self, id: &str) -> Result<Lock, StorageError> {
        let hidden = self.path.join(HIDDEN);
        if !hidden.is_dir() {
            let is_new = !self.path.is_dir();
            let created = private::create_directory(&hidden);
            created.map_err(naming("make the directory", &self.path))?;
            let parent = self.path.parent().filter(|path| !path.as_os_str().is_empty());
            if is_new {
                sync_directory(parent.unwrap_or(Path::new(".")))?;
            }
        }
        Lock::open(&hidden, id)
    }
}
