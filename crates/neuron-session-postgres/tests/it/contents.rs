//! Tests that sessions are stored unchanged, and that only changed rows are written.

use chrono::{DateTime, TimeDelta, Utc};
use neuron_testkit::postgres::PostgresServer;
use neuron_types::{
    ContentBlock, Message, Role, SessionRevision, SessionStorage, StorageError,
    VersionedSessionStorage,
};
use serde_json::json;

use crate::support::{in_schema, look, session, storage};

#[tokio::test]
async fn messages_round_trip_unchanged() {
    let Some(storage) = storage("bytes").await else { return };
    let mut saved = session("s", 0);
    // PostgreSQL's text and JSON types reject or change NUL characters, the order of keys, and numbers beyond the range
    // of a float.
    saved.messages.push(Message::user("a\0b \u{1f980} \u{7f} \\u0000 \"'\r\n"));
    saved.messages.push(Message {
        role: Role::Assistant,
        content: vec![ContentBlock::ToolUse {
            id: "call\0".into(),
            name: "look".into(),
            input: json!({"zebra": 1, "apple": {"b": 1.10, "a": 18_446_744_073_709_551_615_u64}, "": "\0"}),
        }],
    });
    storage.save(&saved).await.unwrap();
    let loaded = storage.load("s").await.unwrap();
    assert_eq!(loaded, saved);
    let json = |value: &[Message]| serde_json::to_string(value).unwrap();
    assert_eq!(json(&loaded.messages), json(&saved.messages));
}

#[tokio::test]
async fn times_round_trip_with_nanoseconds() {
    let Some(storage) = storage("times").await else { return };
    let now = Utc::now();
    for time in [
        DateTime::from_timestamp(1_700_000_000, 123_456_789).unwrap(),
        DateTime::from_timestamp(-1, 1).unwrap(),
        DateTime::from_timestamp(-3_000_000_000, 999_999_999).unwrap(),
        DateTime::from_timestamp(0, 0).unwrap(),
        now,
    ] {
        let mut saved = session("s", 1);
        saved.created_at = time;
        saved.updated_at = time + TimeDelta::nanoseconds(1);
        storage.save(&saved).await.unwrap();
        assert_eq!(storage.load("s").await.unwrap(), saved);
        assert_eq!(storage.list().await.unwrap(), [saved.summary()]);
    }
}

#[tokio::test]
async fn times_outside_the_range_of_postgres_are_rejected() {
    let Some(storage) = storage("times_beyond").await else { return };
    for time in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
        let mut saved = session("s", 1);
        saved.updated_at = time;
        if let Ok(()) = storage.save(&saved).await {
            assert_eq!(storage.load("s").await.unwrap(), saved);
        }
    }
}

#[tokio::test]
async fn save_writes_only_changed_rows() {
    let Some(storage) = storage("changes").await else { return };
    let mut changed = session("s", 6);
    storage.save(&changed).await.unwrap();
    let before = writers("changes").await;

    // A longer session keeps its rows.
    changed.messages.push(Message::user("new"));
    storage.save(&changed).await.unwrap();
    let longer = writers("changes").await;
    assert_eq!(longer[..6], before[..]);
    assert_ne!(longer[6], longer[5]);

    // A changed message keeps the rows before it.
    changed.messages[3] = Message::user("changed");
    let revision = storage.revision("s").await.unwrap();
    storage.update(&changed, &revision).await.unwrap();
    let middle = writers("changes").await;
    assert_eq!(middle[..3], before[..3]);
    assert!(middle[3..].iter().all(|writer| !longer.contains(writer)));

    // For a shorter session only its own row is written.
    changed.messages.truncate(2);
    storage.save(&changed).await.unwrap();
    assert_eq!(writers("changes").await, before[..2]);
    assert_eq!(storage.load("s").await.unwrap(), changed);

    // An equal session, and an empty one.
    storage.save(&changed).await.unwrap();
    assert_eq!(writers("changes").await, before[..2]);
    changed.messages.clear();
    storage.save(&changed).await.unwrap();
    assert!(writers("changes").await.is_empty());
    assert_eq!(storage.load("s").await.unwrap(), changed);
}

/// Returns the id of the transaction that wrote each message row, in the order of the messages. If an id changes, the
/// row was written again.
async fn writers(schema: &str) -> Vec<String> {
    let server = PostgresServer::shared().unwrap();
    let statement =
        format!("SELECT xmin::text FROM {schema}.session_messages ORDER BY session, position");
    let rows = look(server).await.query(&statement, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn append_to_10000_messages_writes_two_rows() {
    let Some(storage) = storage("appends").await else { return };
    let revision = storage.create(&session("s", 10_000)).await.unwrap();
    let before = writers("appends").await;
    let turn = [Message::user("more"), Message::assistant("of it")];
    let revision = storage.append("s", &turn, None, &revision).await.unwrap();
    let after = writers("appends").await;
    assert_eq!(after.len(), 10_002);
    assert_eq!(after[..10_000], before[..]);
    // The append continued the digest, so a save detects that all messages are stored.
    let (loaded, _) = storage.load_versioned("s").await.unwrap();
    storage.update(&loaded, &revision).await.unwrap();
    assert_eq!(writers("appends").await, after);
}

#[tokio::test]
async fn tokens_of_other_storages_are_a_conflict() {
    let Some(storage) = storage("tokens").await else { return };
    let revision = storage.create(&session("s", 2)).await.unwrap();
    // A correct number with a wrong message count or digest must not match.
    let (number, rest) = revision.as_str().split_once('.').unwrap();
    let digest = rest.split_once('.').unwrap().1;
    for token in [
        String::new(),
        "7".into(),
        format!("{number}.1.{digest}"),
        format!("{number}.2.{}", "0".repeat(32)),
    ] {
        let token = SessionRevision::new(token);
        let appended = storage.append("s", &[Message::user("x")], None, &token).await;
        assert!(matches!(appended, Err(StorageError::Conflict { .. })), "{appended:?}");
        let updated = storage.update(&session("s", 1), &token).await;
        assert!(matches!(updated, Err(StorageError::Conflict { .. })), "{updated:?}");
        let missing = storage.append("t", &[], None, &token).await;
        assert!(matches!(missing, Err(StorageError::NotFound(_))), "{missing:?}");
    }
    assert_eq!(storage.revision("s").await.unwrap(), revision);
}

#[tokio::test]
async fn damaged_session_is_an_error_and_not_changed() {
    let Some(storage) = storage("damage").await else { return };
    let server = PostgresServer::shared().unwrap();
    let client = look(server).await;
    for (damage, reason) in [
        (
            "DELETE FROM damage.session_messages WHERE position = 1",
            "messages are missing or were changed",
        ),
        (
            "DELETE FROM damage.session_messages WHERE position = 3",
            "messages are missing or were changed",
        ),
        (
            "UPDATE damage.session_messages SET body = '{}' WHERE position = 0",
            "messages are missing or were changed",
        ),
        ("UPDATE damage.sessions SET state = '{'", "its state: EOF while parsing"),
        ("UPDATE damage.sessions SET message_count = 3", "messages are missing or were changed"),
        ("UPDATE damage.sessions SET digest = ''", "its digest has another length"),
    ] {
        storage.save(&session("s", 4)).await.unwrap();
        client.batch_execute(damage).await.unwrap();
        let error = storage.load("s").await.unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("session \"s\" in schema damage of database postgres at 127.0.0.1:"),
            "{text}"
        );
        assert!(text.contains(reason), "{text}");
        storage.delete("s").await.unwrap();
    }

    // Damage is detected before messages are replaced.
    storage.save(&session("s", 4)).await.unwrap();
    client.batch_execute("DELETE FROM damage.session_messages WHERE position = 2").await.unwrap();
    let mut other = session("s", 4);
    other.messages[0] = Message::user("other");
    let error = storage.save(&other).await.unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
    assert_eq!(writers("damage").await.len(), 3);
}

#[tokio::test]
async fn damaged_session_is_listed_and_can_be_deleted() {
    let Some(storage) = storage("listed_damage").await else { return };
    let client = look(PostgresServer::shared().unwrap()).await;
    for damage in ["message_count = -1", "created_at = 'infinity'", "updated_at = '-infinity'"] {
        storage.save(&session("a", 1)).await.unwrap();
        storage.save(&session("s", 4)).await.unwrap();
        let damage = format!("UPDATE listed_damage.sessions SET {damage} WHERE id = 's'");
        client.batch_execute(&damage).await.unwrap();
        let listed = storage.list().await.unwrap();
        assert_eq!(listed[0], storage.load("a").await.unwrap().summary());
        assert_eq!((listed[1].id.as_str(), listed[1].damage.is_some()), ("s", true), "{damage}");
        storage.delete("s").await.unwrap();
        assert_eq!(storage.list().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn delete_removes_the_messages() {
    let Some(storage) = storage("deletes").await else { return };
    storage.save(&session("s", 100)).await.unwrap();
    storage.delete("s").await.unwrap();
    assert!(writers("deletes").await.is_empty());
}

#[tokio::test]
async fn storage_works_with_other_server_defaults() {
    let Some(server) = PostgresServer::shared() else { return };
    let client = look(server).await;
    client.batch_execute("CREATE DATABASE strict").await.unwrap();
    let settings = "ALTER DATABASE strict SET default_transaction_isolation = 'serializable'; \
                    ALTER DATABASE strict SET standard_conforming_strings = 'off'; \
                    ALTER DATABASE strict SET search_path = 'nowhere'; \
                    ALTER DATABASE strict SET datestyle = 'German'; \
                    ALTER DATABASE strict SET timezone = 'NPT-5:45'";
    for setting in settings.split("; ") {
        client.batch_execute(setting).await.unwrap();
    }
    let url = server.url("strict");
    let storage = in_schema("strict").connect(&url).await.unwrap();
    storage.save(&session("s", 2)).await.unwrap();

    // The server aborts concurrent serialisable transactions. The storage retries them, so callers do not notice.
    let appends = (0..8).map(|number| {
        let storage = storage.clone();
        tokio::spawn(async move {
            loop {
                let revision = storage.revision("s").await.unwrap();
                let message = [Message::user(format!("from {number}"))];
                match storage.append("s", &message, None, &revision).await {
                    Ok(_) => return,
                    Err(StorageError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    futures_util::future::try_join_all(appends.collect::<Vec<_>>()).await.unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn save_between_appends_is_not_lost() {
    let Some(storage) = storage("between").await else { return };
    storage.save(&session("s", 1)).await.unwrap();
    let appender = tokio::spawn({
        let storage = storage.clone();
        async move {
            loop {
                let revision = storage.revision("s").await.unwrap();
                match storage.append("s", &[Message::user("x")], None, &revision).await {
                    Ok(_) | Err(StorageError::Conflict { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    });
    // Appends do not change the state, so it is the state of the last save.
    for number in 1..200 {
        let mut saved = session("s", 3);
        saved.messages[0] = Message::user(format!("save {number}"));
        saved.state.event_count = number;
        storage.save(&saved).await.unwrap();
        let loaded = storage.load("s").await.unwrap();
        assert_eq!(loaded.state.event_count, number);
        assert_eq!(loaded.messages[..3], saved.messages);
    }
    appender.abort();
}
