//! Storages whose files are damaged: each takes a damaged file for something else.

use std::path::{Path, PathBuf};

use neuron_conformance::session::damage::check_damage;
use neuron_types::{Session, SessionStorage, SessionSummary, StorageError};

/// What a storage makes of a damaged file.
#[derive(Clone, Copy)]
enum Damaged {
    /// Takes what can be read.
    Read,
    /// Reads the state before the last save.
    Older,
    /// Looks as if there were no session.
    Missing,
}

/// A file for each session, and one with the state before.
struct Files(PathBuf, Damaged);

impl Files {
    fn path(&self, id: &str) -> PathBuf {
        self.0.join(format!("{id}.session"))
    }

    /// Reads JSON with its length before it.
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
async fn a_storage_that_reads_a_damaged_session() {
    check(Damaged::Read).await;
}

#[tokio::test]
#[should_panic(expected = "was loaded as another session")]
async fn a_storage_that_reads_an_earlier_state() {
    check(Damaged::Older).await;
}

#[tokio::test]
#[should_panic(expected = "is missing without an error")]
async fn a_storage_that_loses_a_damaged_session() {
    check(Damaged::Missing).await;
}
