//! The directory of the sessions, and the names of their files.

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

/// The folder for locks and unfinished files. No session has a name that begins with a full stop.
const HIDDEN: &str = ".neuron";

/// A directory of sessions. A clone is the same.
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

    pub(super) fn file(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}.json"))
    }

    /// Reads a session. `None` if there is no file.
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

    /// Reads a session without its messages. `None` if there is no such session.
    pub(super) fn outline(&self, id: &str) -> Result<Option<Outline>, StorageError> {
        outline::read(&self.file(id), id)
    }

    /// Describes all sessions, in the order of their ids.
    pub(super) fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            // It is made with the first session.
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
                // Somebody deleted it meanwhile.
                Ok(None) => {}
                Err(error) => summaries.push(SessionSummary::damaged(id, &error)),
            }
        }
        summaries.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(summaries)
    }

    /// Waits until nobody else in this process writes a session.
    pub(super) async fn turn(&self, id: &str) -> Turn {
        self.locks.turn(id).await
    }

    /// Opens the lock of a session that may be there.
    pub(super) fn lock(&self, id: &str) -> Result<Lock, StorageError> {
        let path = self.file(id);
        // A directory is not made for a session that is not there.
        match fs::symlink_metadata(&path) {
            Ok(_) => self.lock_or_make(id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StorageError::NotFound(id.to_owned()))
            }
            Err(error) => Err(naming("open", &path)(error)),
        }
    }

    /// Opens the lock of a session. Makes the directory if it is not there.
    pub(super) fn lock_or_make(&self, id: &str) -> Result<Lock, StorageError> {
        let hidden = self.path.join(HIDDEN);
        if !hidden.is_dir() {
            let is_new = !self.path.is_dir();
            fs::create_dir_all(&hidden).map_err(naming("make the directory", &self.path))?;
            let parent = self.path.parent().filter(|path| !path.as_os_str().is_empty());
            if is_new {
                sync_directory(parent.unwrap_or(Path::new(".")))?;
            }
        }
        Lock::open(&hidden, id)
    }
}
