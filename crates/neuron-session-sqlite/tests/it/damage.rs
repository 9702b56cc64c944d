//! Tests of damaged files. No wrong message is loaded, and no damaged session is overwritten.

use std::fs;
use std::path::Path;

use neuron_session_sqlite::SqliteSessionStorage;
use neuron_types::{
    Session, SessionRevision, SessionStorage, SessionSummary, StorageError, VersionedSessionStorage,
};

use crate::support::{message, open, place, run, same_or_corrupt, session};

/// Returns the bytes of a database with this session.
async fn database(path: &Path, session: &Session) -> Vec<u8> {
    open(path).await.save(session).await.unwrap();
    fs::read(path).unwrap()
}

#[tokio::test]
async fn changed_byte_never_changes_a_loaded_session() {
    let (_folder, path) = place();
    let expected = session("s", 40);
    let whole = database(&path, &expected).await;
    let (mut same, mut refused) = (0, 0);
    for at in (0..whole.len()).step_by(37) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let loaded = match SqliteSessionStorage::open(&path).await {
            Ok(storage) => storage.load("s").await,
            Err(StorageError::UnsupportedVersion { .. }) => continue,
            Err(error) => Err(error),
        };
        match loaded {
            // The changed byte is in the schema.
            Err(StorageError::Other(_)) => refused += 1,
            loaded => match same_or_corrupt(loaded, &expected) {
                true => same += 1,
                false => refused += 1,
            },
        }
    }
    // Most bytes of the file belong to texts, whose damage is detected.
    assert!(refused * 3 > same, "{refused} were refused, and {same} were whole");
}

#[tokio::test]
async fn truncated_file_is_rejected_and_not_changed() {
    let (_folder, path) = place();
    let expected = session("s", 60);
    let whole = database(&path, &expected).await;
    for length in (1..whole.len()).step_by(61) {
        fs::write(&path, &whole[..length]).unwrap();
        let error = SqliteSessionStorage::open(&path).await.unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{length}: {error:?}");
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
        assert!(fs::read(&path).unwrap() == whole[..length]);
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(open(&path).await.load("s").await.unwrap(), expected);
}

/// Damages a session with an SQL statement. Checks that the error contains `says`, and that no write overwrites the
/// session.
async fn refused(damage: &str, says: &str) {
    let (_folder, path) = place();
    let storage = open(&path).await;
    let stored = session("s", 10);
    let revision = storage.create(&stored).await.unwrap();
    storage.save(&session("other", 10)).await.unwrap();
    run(&path, damage);
    let dump = || {
        let connection = rusqlite::Connection::open(&path).unwrap();
        let text = |sql| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        let sessions = text("SELECT hex(group_concat(id || revision || state)) FROM sessions");
        let messages = text("SELECT hex(group_concat(session || position || body)) FROM messages");
        (sessions, messages)
    };
    let before = dump();

    let error = storage.load("s").await.unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{damage}: {error:?}");
    let text = error.to_string();
    assert!(text.contains(says), "{damage}: {text}");
    assert!(text.starts_with(&format!("session \"s\" in {}", path.display())), "{text}");

    // Writes of another session with the same id must fail.
    let replacement = Session { messages: vec![message(77)], ..session("s", 0) };
    let error = storage.save(&replacement).await.unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{damage}: {error:?}");
    let updated = storage.update(&replacement, &revision).await.unwrap_err();
    assert!(matches!(updated, StorageError::Corrupt { .. }), "{damage}: {updated:?}");
    let created = storage.create(&replacement).await.unwrap_err();
    assert!(
        matches!(created, StorageError::Corrupt { .. } | StorageError::Conflict { .. }),
        "{damage}: {created:?}"
    );
    assert_eq!(dump(), before, "{damage}: it was written over");

    // Other sessions are not affected, and the id can be used again after the session was deleted.
    assert_eq!(storage.load("other").await.unwrap().messages.len(), 10);
    storage.delete("s").await.unwrap();
    storage.save(&replacement).await.unwrap();
    assert_eq!(storage.load("s").await.unwrap(), replacement);
}

#[tokio::test]
async fn damaged_session_is_an_error_and_not_overwritten() {
    const SESSION: &str = "session = (SELECT key FROM sessions WHERE id = 's')";
    let at = |position: usize| format!("WHERE {SESSION} AND position = {position}");
    let set = |what: &str, position| format!("UPDATE messages SET {what} {}", at(position));
    refused(&set("body = replace(body, '4:', '5:')", 4), "message 4 is not as written").await;
    refused(&set("body = '{'", 9), "message 9 is not as written").await;
    refused(&set("body = ''", 0), "message 0 is not as written").await;
    refused(&set("digest = zeroblob(32)", 3), "message 3 is not as written").await;
    refused(&set("position = 20", 5), "message 5 is not as written").await;
    refused(&format!("DELETE FROM messages {}", at(5)), "message 5 is not as written").await;
    refused(&format!("DELETE FROM messages {}", at(9)), "message 9 is missing").await;
    refused(&format!("DELETE FROM messages WHERE {SESSION}"), "message 0 is missing").await;
    let more = "INSERT INTO messages SELECT key, 10, digest, '{}' FROM sessions WHERE id = 's'";
    refused(more, "its messages do not match its digest").await;

    for what in [
        "state = replace(state, 'srv', 'SRV')",
        "state = '{}'",
        "message_count = 9",
        "message_count = 11",
        "created_at = '2000-01-01T00:00:00Z'",
        "updated_at = 'soon'",
        "revision = 'another'",
        "digest = zeroblob(32)",
        "messages_digest = zeroblob(32)",
    ] {
        let damage = format!("UPDATE sessions SET {what} WHERE id = 's'");
        refused(&damage, "its row is not as written").await;
    }
}

#[tokio::test]
async fn invalid_column_value_is_damage() {
    let (_folder, path) = place();
    let storage = open(&path).await;
    storage.save(&session("s", 1)).await.unwrap();
    for (column, value) in
        [("message_count", "-1"), ("digest", "x'00'"), ("messages_digest", "x''")]
    {
        run(&path, &format!("UPDATE sessions SET {column} = {value}"));
        let error = storage.load("s").await.unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{column}: {error:?}");
    }
    run(&path, "UPDATE sessions SET message_count = 1, created_at = 'soon'");
    let error = storage.load("s").await.unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
}

#[tokio::test]
async fn damaged_session_is_listed_and_can_be_deleted() {
    let (_folder, path) = place();
    let storage = open(&path).await;
    for damage in [
        "state = '{}'",
        "message_count = -1",
        "created_at = 'soon'",
        "digest = x'00'",
        "revision = 'another'",
    ] {
        storage.save(&session("a", 1)).await.unwrap();
        storage.save(&session("s", 2)).await.unwrap();
        run(&path, &format!("UPDATE sessions SET {damage} WHERE id = 's'"));
        let error = storage.load("s").await.unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{damage}: {error:?}");
        let whole = storage.load("a").await.unwrap().summary();
        let listed = storage.list().await.unwrap();
        assert_eq!(listed, [whole, SessionSummary::damaged("s", &error)], "{damage}");
        storage.delete("s").await.unwrap();
        assert_eq!(storage.list().await.unwrap().len(), 1);
    }
}

/// Loading a session must return an error if its entry in the index of ids is damaged. Regression test. The session was
/// reported as not found.
#[tokio::test]
async fn session_missing_in_a_damaged_index_is_an_error() {
    let (_folder, path) = place();
    let stored = session("session-that-is-lost", 1);
    let mut bytes = database(&path, &stored).await;
    let id = b"session-that-is-lost";
    let places: Vec<_> =
        (0..bytes.len() - id.len()).filter(|at| bytes[*at..].starts_with(id)).collect();
    // The id is in the row and in the index.
    assert_eq!(places.len(), 2);
    let mut lost = 0;
    for at in places {
        bytes[at + id.len() - 1] ^= 1;
        fs::write(&path, &bytes).unwrap();
        bytes[at + id.len() - 1] ^= 1;
        let storage = open(&path).await;
        let listed = storage.list().await.unwrap();
        assert!(listed.iter().any(|one| one.damage.is_some()), "{listed:?}");
        let error = match storage.load(&stored.id).await {
            // SQLite read the id from the index and not from the damaged row.
            Ok(loaded) => {
                assert_eq!(loaded, stored);
                continue;
            }
            Err(error) => error,
        };
        assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("REINDEX sessions"), "{error}");
        lost += 1;
        let appended = storage.append(&stored.id, &[], None, &SessionRevision::new("x")).await;
        assert!(matches!(appended, Err(StorageError::Corrupt { .. })), "{appended:?}");
        let created = storage.create(&stored).await;
        assert!(matches!(created, Err(StorageError::Corrupt { .. })), "{created:?}");
        let deleted = storage.delete(&stored.id).await;
        assert!(matches!(deleted, Err(StorageError::Corrupt { .. })), "{deleted:?}");
        assert!(listed.iter().all(|one| one.damage.is_some()), "{listed:?}");
        // The error text recommends this statement.
        drop(storage);
        run(&path, "REINDEX sessions");
        assert_eq!(open(&path).await.load(&stored.id).await.unwrap(), stored);
    }
    assert_eq!(lost, 1);
}
