//! Tests that a write stores only the changed rows of a session.

use std::collections::BTreeMap;
use std::path::Path;

use neuron_types::{Message, SessionStorage, VersionedSessionStorage};
use rusqlite::Connection;

use crate::support::{look, message, open, place, session};

/// Returns the row ids of all messages by session and position. A row id changes if a message is inserted again.
fn rows(path: &Path) -> BTreeMap<(i64, i64), i64> {
    let connection = Connection::open(path).unwrap();
    let mut select = connection.prepare("SELECT session, position, rowid FROM messages").unwrap();
    let rows = select.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn save_inserts_only_new_messages() {
    let (_folder, path) = place();
    let storage = open(&path).await;
    let mut session = session("s", 100);
    storage.save(&session).await.unwrap();
    let before = rows(&path);
    assert_eq!(before.len(), 100);

    // A session without new messages.
    session.touch();
    storage.save(&session).await.unwrap();
    assert_eq!(rows(&path), before);

    session.messages.extend([message(100), message(101)]);
    storage.save(&session).await.unwrap();
    let after = rows(&path);
    assert_eq!(after.len(), 102);
    assert!(before.iter().all(|(position, row)| after.get(position) == Some(row)));
    assert_eq!(storage.load("s").await.unwrap(), session);

    // The same holds for a session that was loaded and is saved again.
    let loaded = storage.load("s").await.unwrap();
    storage.save(&loaded).await.unwrap();
    assert_eq!(rows(&path), after);
}

#[tokio::test]
async fn save_writes_from_the_first_difference() {
    let (_folder, path) = place();
    let storage = open(&path).await;
    for length in [1, 2, 3, 7, 8, 100] {
        for difference in (0..length).step_by((length / 10).max(1)) {
            let id = format!("{length}-{difference}");
            let mut changed = session(&id, length);
            storage.save(&changed).await.unwrap();
            // The next session uses the following row ids, so that deleted row ids are not reused.
            storage.save(&session(&format!("{id}-next"), 1)).await.unwrap();
            let before = rows(&path);
            changed.messages[difference] = Message::user("changed");
            storage.save(&changed).await.unwrap();
            assert_eq!(storage.load(&id).await.unwrap(), changed);

            let after = rows(&path);
            assert_eq!(after.len(), before.len());
            let kept = before.iter().filter(|(place, row)| after.get(place) == Some(row));
            assert_eq!(before.len() - kept.count(), length - difference, "{id}");
        }
    }
}

#[tokio::test]
async fn save_of_a_shorter_session_deletes_its_end() {
    let (_folder, path) = place();
    let storage = open(&path).await;
    let mut session = session("s", 50);
    storage.save(&session).await.unwrap();
    let before = rows(&path);
    for length in [49, 20, 1, 0] {
        session.messages.truncate(length);
        storage.save(&session).await.unwrap();
        assert_eq!(storage.load("s").await.unwrap(), session);
        let after = rows(&path);
        assert_eq!(after.len(), length);
        assert!(after.iter().all(|(position, row)| before.get(position) == Some(row)));
    }
}

#[tokio::test]
async fn stored_columns_are_readable_json() {
    let (_folder, path) = place();
    let storage = open(&path).await;
    storage.save(&session("s", 3)).await.unwrap();
    let users = "SELECT count(*) FROM messages WHERE body ->> 'role' = 'user'";
    assert_eq!(look(&path, users), 2);
    assert_eq!(look(&path, "SELECT count(*) FROM sessions WHERE state ->> 'cwd' = '/srv'"), 1);
}

#[tokio::test]
async fn revision_is_not_reused_after_a_restored_backup() {
    let (_folder, path) = place();
    let storage = open(&path).await;
    let first = storage.create(&session("s", 1)).await.unwrap();
    drop(storage);
    let backup = std::fs::read(&path).unwrap();
    let storage = open(&path).await;
    let second = storage.append("s", &[message(1)], None, &first).await.unwrap();
    drop(storage);

    std::fs::write(&path, backup).unwrap();
    neuron_session_sqlite::accept_older(&path).unwrap();
    let storage = open(&path).await;
    assert_eq!(storage.revision("s").await.unwrap(), first);
    let other = storage.append("s", &[message(3)], None, &first).await.unwrap();
    assert_ne!(other, second);
}

#[tokio::test]
async fn delete_returns_the_space_of_a_large_session() {
    let (_folder, path) = place();
    let storage = open(&path).await;
    storage.save(&session("small", 10)).await.unwrap();
    storage.save(&session("large", 20_000)).await.unwrap();
    drop(storage);
    let storage = open(&path).await;
    let size = || std::fs::metadata(&path).unwrap().len();
    assert!(size() > 4 << 20, "{}", size());
    storage.delete("large").await.unwrap();
    assert!(size() < 1 << 20, "{}", size());
    assert_eq!(storage.load("small").await.unwrap().messages.len(), 10);
}
