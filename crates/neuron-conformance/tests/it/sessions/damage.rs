//! Tests that `check_damage` finds storages that treat a damaged file incorrectly.

use std::path::{Path, PathBuf};

use neuron_conformance::session::damage::check_damage;
use neuron_types::{Session, SessionStorage, SessionSummary, StorageError};

/// Selects the result of the test storage for a session whose file is damaged.
#[derive(Clone, Copy)]
enum Damaged {
    /// Returns the session from the damaged file without a check, if it can still be parsed.
    Read,
    /// Returns the session before its last save, from the second file.
    Older,
    /// Returns the error `NotFound`, as if the session did not exist.
    Missing,
}

/// A storage with two files per session, one for the last save and one for the save before it.
struct Files(PathBuf, Damaged);

impl Files {
    fn path(&self, id: &str) -> PathBuf {
        self.0.join(format!("{id}.session"))
    }

    /// Reads a session from a file. Its first line has the length and the byte sum of the JSON that follows.
    fn read(&self, path: &Path) -> Option<Session> {
        let text = String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned();
        let (length, json) = text.split_once('\n')?;
        let is_checked = !matches!(self.1, Damaged::Read);
        let has_length =
            length == format!("{} {}", json.len(), json.bytes().map(u64::from).sum::<u64>());
        (has_length || !is_checked).then(|| serde_json::from_str(json).ok())?
    }
}

impl SessionStorage for Files {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        let path = self.path(&session.id);
        if path.exists() {
            std::fs::rename(&path, path.with_extension("before"))?;
        }
        let json = serde_json::to_string(session).unwrap();
        let sum = json.bytes().map(u64::from).sum::<u64>();
        Ok(std::fs::write(&path, format!("{} {sum}\n{json}", json.len()))?)
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        let path = self.path(id);
        let before = || self.read(&path.with_extension("before"));
        let session = self.read(&path).or_else(|| match self.1 {
            Damaged::Older => before(),
            _ => None,
        });
        session.ok_or_else(|| match self.1 {
            Damaged::Read if path.exists() => StorageError::Serialization("damaged".into()),
            _ => StorageError::NotFound(id.into()),
        })
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        Err(StorageError::Other("not in these tests".into()))
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        std::fs::remove_file(self.path(id).with_extension("before"))?;
        Ok(std::fs::remove_file(self.path(id))?)
    }
}

async fn check(damaged: Damaged) {
    let folder = tempfile::tempdir().unwrap();
    let open = async |folder| Ok(Files(folder, damaged));
    check_damage(&folder.path().join("trial"), open, 0..500).await;
}

#[tokio::test]
#[should_panic(expected = "was loaded as another session")]
async fn check_damage_catches_a_loaded_damaged_session() {
    check(Damaged::Read).await;
}

#[tokio::test]
#[should_panic(expected = "was loaded as another session")]
async fn check_damage_catches_a_loaded_earlier_state() {
    check(Damaged::Older).await;
}

#[tokio::test]
#[should_panic(expected = "is missing without an error")]
async fn check_damage_catches_a_missing_session() {
    check(Damaged::Missing).await;
}
