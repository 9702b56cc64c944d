//! Tests with a database of each version that users may have.

use std::fs;

use chrono::DateTime;
use neuron_session_sqlite::SqliteSessionStorage;
use neuron_sqlite::{Database, Schema, SqliteOptions};
use neuron_types::{
    ContentBlock, ContentItem, Message, Role, Session, SessionStorage, StorageError, TokenUsage,
};
use serde_json::json;

use crate::support::{look, place, run};

/// A database of version 1, written by a `save` of [`expected`].
const VERSION_1: &[u8] = include_bytes!("../fixtures/version-1.db");

/// Returns the session in the database.
fn expected() -> Session {
    let mut session = Session::new("chat 42", "/srv/project".into());
    session.created_at = DateTime::from_timestamp(1_700_000_000, 123_456_789).unwrap();
    session.updated_at = DateTime::from_timestamp(1_700_000_001, 1).unwrap();
    session.state.event_count = 7;
    session.state.token_usage = TokenUsage { input_tokens: 100, ..TokenUsage::default() };
    session.state.custom.insert("theme".into(), json!("dark"));
    let call = ContentBlock::ToolUse {
        id: "call-1".into(),
        name: "search".into(),
        input: json!({"z": 1, "a": [null, 0.1, "é\u{0}"]}),
    };
    let result = ContentBlock::ToolResult {
        tool_use_id: "call-1".into(),
        content: vec![ContentItem::Text("A language.".into())],
        is_error: false,
    };
    session.messages = vec![
        Message::user("What is Rust?"),
        Message { role: Role::Assistant, content: vec![call] },
        Message { role: Role::User, content: vec![result] },
        Message::assistant("A language."),
    ];
    session
}

#[tokio::test]
async fn version_1_is_read_and_written() {
    let (_folder, path) = place();
    fs::write(&path, VERSION_1).unwrap();
    let storage = SqliteSessionStorage::open(&path).await.unwrap();
    let mut session = storage.load("chat 42").await.unwrap();
    assert_eq!(session, expected());
    assert_eq!(storage.list().await.unwrap(), [expected().summary()]);
    assert_eq!(look(&path, "PRAGMA user_version"), 1);

    session.messages.push(Message::user("Another question"));
    let last = "SELECT max(rowid) FROM messages WHERE position < 4";
    let before = look(&path, last);
    storage.save(&session).await.unwrap();
    assert_eq!(storage.load("chat 42").await.unwrap(), session);
    assert_eq!(look(&path, last), before, "the old messages were written again");
}

#[tokio::test]
async fn newer_version_is_rejected_and_not_changed() {
    let (_folder, path) = place();
    fs::write(&path, VERSION_1).unwrap();
    run(&path, "PRAGMA user_version = 2");
    let before = fs::read(&path).unwrap();
    let error = SqliteSessionStorage::open(&path).await.unwrap_err().to_string();
    let words = "has format version 2, and this version reads up to 1: update neuron, or store the \
                 sessions elsewhere";
    assert_eq!(error, format!("{} {words}", path.display()));
    assert!(fs::read(&path).unwrap() == before);
}

#[tokio::test]
async fn database_of_another_kind_is_named() {
    let (_folder, path) = place();
    run(&path, "CREATE TABLE other (x)");
    // 0x6e726e52 is the application id of a database of runs.
    for (id, owned) in [
        ("0x12345678", "a SQLite database of another application"),
        ("0x6e726e52", "a run journal of neuron"),
    ] {
        run(&path, &format!("PRAGMA application_id = {id}"));
        let error = SqliteSessionStorage::open(&path).await.unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
        let words = format!("it is {owned}, so use another file; it is left as it is");
        assert!(error.to_string().ends_with(&words), "{error}");
    }
}

/// The errors of other storages name a database of sessions by its application id.
#[tokio::test]
async fn other_storage_names_a_session_database() {
    let (_folder, path) = place();
    fs::write(&path, VERSION_1).unwrap();
    let notes = Schema { application: "notes", application_id: 1, migrations: &["SELECT 1"] };
    let error = Database::open(&path, notes, SqliteOptions::new()).await.unwrap_err();
    assert!(error.to_string().contains("is a session database of neuron"), "{error}");
}

#[tokio::test]
async fn missing_folder_is_created() {
    let (folder, _path) = place();
    let path = folder.path().join("data").join("agents").join("sessions.db");
    let storage = SqliteSessionStorage::open(&path).await.unwrap();
    storage.save(&expected()).await.unwrap();
    drop(storage);
    let storage = SqliteSessionStorage::open(&path).await.unwrap();
    assert_eq!(storage.load("chat 42").await.unwrap(), expected());
}
