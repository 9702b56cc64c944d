//! Tests of several processes that write to the same sessions.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use neuron_session_sqlite::{SqliteOptions, SqliteSessionStorage};
use neuron_types::{Message, SessionStorage, StorageError, VersionedSessionStorage};

use crate::support::{look, open, place, session};

const TEST: &str = "processes::concurrent_writes_to_the_same_sessions_lose_nothing";
const PLACE: &str = "NEURON_SESSIONS_PLACE";
const NAME: &str = "NEURON_SESSIONS_WRITER";

const WRITES: usize = 40;
const PROCESSES: usize = 3;

#[tokio::test]
async fn concurrent_writes_to_the_same_sessions_lose_nothing() {
    if let Ok(path) = std::env::var(PLACE) {
        // SQLite has no queue for writers, and disks may be slow.
        let patient = SqliteOptions::new().busy_timeout(Duration::from_secs(600));
        let storage = SqliteSessionStorage::open_with(path, patient).await.unwrap();
        write(&storage, &std::env::var(NAME).unwrap()).await;
        return;
    }
    let (_folder, path) = place();
    let storage = open(&path).await;
    for id in ["a", "b"] {
        storage.save(&session(id, 0)).await.unwrap();
    }
    let start = |name: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([TEST, "--exact"]).stdout(Stdio::null());
        command.env(PLACE, &path).env(NAME, name.to_string()).spawn().unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let mut found = BTreeSet::new();
    for id in ["a", "b"] {
        let session = storage.load(id).await.unwrap();
        assert_eq!(session.messages.len(), WRITES * PROCESSES / 2);
        found.extend(session.messages.iter().map(Message::text));
    }
    assert_eq!(found.len(), WRITES * PROCESSES);
    assert_eq!(look(&path, "SELECT count(*) FROM messages"), (WRITES * PROCESSES) as i64);
}

async fn write(storage: &SqliteSessionStorage, name: &str) {
    for number in 0..WRITES {
        let id = if number % 2 == 0 { "a" } else { "b" };
        let message = Message::user(format!("{name}/{number}"));
        loop {
            let (mut session, revision) = storage.load_versioned(id).await.unwrap();
            let written = match number % 3 {
                0 => storage.append(id, std::slice::from_ref(&message), None, &revision).await,
                _ => {
                    session.messages.push(message.clone());
                    storage.update(&session, &revision).await
                }
            };
            match written {
                Ok(_) => break,
                Err(StorageError::Conflict { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}
