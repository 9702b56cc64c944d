//! Tests that `check_saves` accepts a correct storage and finds broken storages.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use neuron_conformance::session::kill;
use neuron_types::{Session, SessionStorage, SessionSummary, StorageError, check_session_id};
use tempfile::TempDir;

/// The way in which a storage writes a session.
#[derive(Clone, Copy)]
enum Writing {
    /// Writes to a temporary file, and renames the file when it is complete.
    Atomic,
    /// Overwrites the session's file. In the child process, each write waits in its middle.
    InPlace,
    /// Incorrectly returns from the save first, and writes the file ten seconds later.
    Later,
}

/// A delay in the child process that is longer than the time until any kill.
const LONG: Duration = Duration::from_secs(10);

/// A storage with one file per session, without revisions and locks.
struct Files(PathBuf, Writing);

impl Files {
    fn path(&self, id: &str) -> PathBuf {
        self.0.join(id)
    }
}

fn write(path: &Path, json: Vec<u8>, writing: Writing) -> Result<(), StorageError> {
    match writing {
        Writing::InPlace => {
            // Writes the file in two parts, so that the process is killed between them.
            let (first, second) = json.split_at(json.len() / 2);
            let mut file = std::fs::File::create(path)?;
            file.write_all(first)?;
            if is_child() {
                std::thread::sleep(LONG);
            }
            file.write_all(second)?;
        }
        _ => {
            let temporary = path.with_extension("temporary");
            std::fs::write(&temporary, json)?;
            std::fs::rename(temporary, path)?;
        }
    }
    Ok(())
}

/// Returns `true` in the process that is killed.
fn is_child() -> bool {
    neuron_conformance::child_process::task().is_some()
}

impl SessionStorage for Files {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        check_session_id(&session.id)?;
        let (path, writing) = (self.path(&session.id), self.1);
        let json = serde_json::to_vec(session).unwrap();
        match writing {
            // Only the child process writes later. The parent process is not killed, and writes immediately.
            Writing::Later if is_child() => {
                std::thread::spawn(move || {
                    std::thread::sleep(LONG);
                    write(&path, json, writing)
                });
            }
            _ => write(&path, json, writing)?,
        }
        Ok(())
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        let json = std::fs::read(self.path(id))?;
        serde_json::from_slice(&json)
            .map_err(|error| StorageError::Serialization(error.to_string()))
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        let mut list = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let name = entry?.file_name().into_string().unwrap();
            if !name.ends_with("temporary") {
                list.push(self.load(&name).await?.summary());
            }
        }
        Ok(list)
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        Ok(std::fs::remove_file(self.path(id))?)
    }
}

async fn directory() -> (String, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (directory.path().to_str().unwrap().to_owned(), directory)
}

#[tokio::test]
async fn atomic_storage_passes() {
    let killed =
        kill::check_saves("sessions::killed::atomic_storage_passes", directory, async |place| {
            Files(place.into(), Writing::Atomic)
        })
        .await;
    assert_eq!(killed.rounds, killed.old + killed.new);
    assert!(killed.rounds > 0);
}

#[tokio::test]
#[should_panic(expected = "the session storage does not conform: kill: round ")]
async fn check_saves_catches_a_torn_write() {
    // A single check may kill the processes before their first write, so the check is repeated.
    for _ in 0..20 {
        kill::check_saves(
            "sessions::killed::check_saves_catches_a_torn_write",
            directory,
            async |place| Files(place.into(), Writing::InPlace),
        )
        .await;
    }
}

#[tokio::test]
#[should_panic(expected = "was the last to finish")]
async fn check_saves_catches_a_late_write() {
    for _ in 0..20 {
        kill::check_saves(
            "sessions::killed::check_saves_catches_a_late_write",
            directory,
            async |place| Files(place.into(), Writing::Later),
        )
        .await;
    }
}

#[tokio::test]
#[should_panic(expected = "the process did not begin to write")]
async fn check_saves_fails_for_an_unknown_test_name() {
    kill::check_saves("sessions::killed::no_test_of_this_name", directory, async |place| {
        Files(place.into(), Writing::Atomic)
    })
    .await;
}
