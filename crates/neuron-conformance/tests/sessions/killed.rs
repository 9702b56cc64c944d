//! Storages whose process is killed: one that holds, and those that do not.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use neuron_conformance::session::kill;
use neuron_types::{Session, SessionStorage, SessionSummary, StorageError, check_session_id};

/// How a session becomes a file.
#[derive(Clone, Copy)]
enum Writing {
    /// Into another file, which takes its place when it is whole.
    Atomic,
    /// Into the file itself.
    InPlace,
    /// It says that it did before it does.
    Later,
}

/// One file a session; no revisions, no locks.
struct Files(PathBuf, Writing);

impl Files {
    fn path(&self, id: &str) -> PathBuf {
        self.0.join(id)
    }
}

fn write(path: &Path, json: Vec<u8>, writing: Writing) -> Result<(), StorageError> {
    match writing {
        Writing::InPlace => {
            // In two pieces, with time to be killed in between.
            let (first, second) = json.split_at(json.len() / 2);
            let mut file = std::fs::File::create(path)?;
            file.write_all(first)?;
            serde_json::from_slice::<serde_json::Value>(&json).unwrap();
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

impl SessionStorage for Files {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        check_session_id(&session.id)?;
        let (path, writing) = (self.path(&session.id), self.1);
        let json = serde_json::to_vec(session).unwrap();
        match writing {
            // Also in the process of the test: but that one lives to the end.
            Writing::Later if neuron_conformance::child_process::task().is_some() => {
                std::thread::spawn(move || {
                    // So late that no process lives to see it.
                    std::thread::sleep(Duration::from_secs(10));
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

/// A directory that goes with its value.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn directory(name: &str) -> (String, Directory) {
    let path = std::env::temp_dir().join(format!("neuron-killed-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    (path.to_str().unwrap().to_owned(), Directory(path))
}

#[tokio::test]
async fn a_storage_that_holds() {
    let killed = kill::check_saves(
        "killed::a_storage_that_holds",
        async || directory("atomic").await,
        async |place| Files(place.into(), Writing::Atomic),
    )
    .await;
    assert_eq!(killed.rounds, killed.old + killed.new);
    assert!(killed.rounds > 0);
}

#[tokio::test]
#[should_panic(expected = "the session storage does not conform: kill: round ")]
async fn one_that_writes_in_place() {
    // One round may miss it; a hundred do not.
    for _ in 0..20 {
        kill::check_saves(
            "killed::one_that_writes_in_place",
            async || directory("in-place").await,
            async |place| Files(place.into(), Writing::InPlace),
        )
        .await;
    }
}

#[tokio::test]
#[should_panic(expected = "was the last to finish")]
async fn one_that_writes_later() {
    for _ in 0..20 {
        kill::check_saves(
            "killed::one_that_writes_later",
            async || directory("later").await,
            async |place| Files(place.into(), Writing::Later),
        )
        .await;
    }
}

#[tokio::test]
#[should_panic(expected = "the process did not begin to write")]
async fn a_test_that_is_not_there() {
    kill::check_saves(
        "killed::no_test_of_this_name",
        async || directory("nowhere").await,
        async |place| Files(place.into(), Writing::Atomic),
    )
    .await;
}
