//! Tests of sessions in files. They cover the conformance suite, the file format, and different executors.

use std::path::PathBuf;

use futures_util::FutureExt;
use neuron_runtime::{FileSessionStorage, Session, SessionStorage, VersionedSessionStorage};
use neuron_types::{Message, StorageError};

use crate::sessions::temporary::{Temporary, as_version_1, names};

crate::sessions::conforms!({
    let temporary = Temporary::new();
    (temporary.storage(), temporary)
});

#[tokio::test]
async fn file_is_readable_json() {
    let temporary = Temporary::new();
    let mut session = Session::new("chat-42", "/srv/project".into());
    let time = "2026-01-02T03:04:05.000000006Z".parse().unwrap();
    (session.created_at, session.updated_at) = (time, time);
    session.messages = vec![Message::user("Hello\n\"you\""), Message::assistant("Hi")];
    let revision = temporary.storage().create(&session).await.unwrap();

    let text = std::fs::read_to_string(temporary.file("chat-42")).unwrap();
    let checksums: Vec<&str> = text.split('"').filter(|part| part.len() == 64).collect();
    let expected = r#"{
  "format": "neuron session",
  "version": 3,
  "revision": "REVISION",
  "id": "chat-42",
  "created_at": "2026-01-02T03:04:05.000000006Z",
  "updated_at": "2026-01-02T03:04:05.000000006Z",
  "message_count": 2,
  "state": {"cwd":"/srv/project","token_usage":{"input_tokens":0,"output_tokens":0},"event_count":0,"custom":{}},
  "head_checksum": "CHECKSUM0",
  "messages": [
    {"role":"user","content":[{"type":"text","text":"Hello\n\"you\""}]},
    {"role":"assistant","content":[{"type":"text","text":"Hi"}]}
  ],
  "checksum": "CHECKSUM1"
}
"#;
    let expected = expected.replace("REVISION", revision.as_str());
    let expected = expected.replace("CHECKSUM0", checksums[0]).replace("CHECKSUM1", checksums[1]);
    assert_eq!(text, expected);
}

/// Users have files of this version, so every release must read them.
#[tokio::test]
async fn file_of_version_1_is_read() {
    let temporary = Temporary::new();
    std::fs::create_dir(temporary.join("sessions")).unwrap();
    std::fs::write(temporary.file("chat-42"), include_str!("version-1.json")).unwrap();
    let storage = temporary.storage();
    let (session, revision) = storage.load_versioned("chat-42").await.unwrap();
    assert_eq!(revision.as_str(), "5e0c9d6c3b8f4b0a8f6e2d1c0b9a8776");
    assert_eq!(session.messages[0], Message::user("Hello"));
    assert_eq!(session.messages[1].tool_uses().next().unwrap().name, "now");
    assert_eq!(session.state.custom["theme"], "dark");
    assert_eq!(storage.list().await.unwrap(), [session.summary()]);
    storage.update(&session, &revision).await.unwrap();
    assert_eq!(storage.load("chat-42").await.unwrap(), session);
}

#[tokio::test]
async fn file_of_version_2_is_read() {
    let temporary = Temporary::new();
    std::fs::create_dir(temporary.join("sessions")).unwrap();
    std::fs::write(temporary.file("chat-42"), include_str!("version-2.json")).unwrap();
    let storage = temporary.storage();
    let (session, revision) = storage.load_versioned("chat-42").await.unwrap();
    assert_eq!(revision.as_str(), "5e0c9d6c3b8f4b0a8f6e2d1c0b9a8776");
    assert_eq!(storage.list().await.unwrap(), [session.summary()]);
    // The fixture of version 1 contains the same session.
    std::fs::write(temporary.file("chat-42"), include_str!("version-1.json")).unwrap();
    assert_eq!(storage.load("chat-42").await.unwrap(), session);
}

/// An editor or a tool may have changed the white space or the order of the fields.
#[tokio::test]
async fn file_with_other_white_space_and_order_is_read() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    let mut session = Session::new("s", ".".into());
    session.messages = vec![Message::user("one"), Message::assistant("two")];
    let revision = storage.create(&session).await.unwrap();
    let text = std::fs::read_to_string(temporary.file("s")).unwrap();
    let json = as_version_1(&text).into_bytes();
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let reversed: serde_json::Map<_, _> =
        value.as_object().unwrap().clone().into_iter().rev().collect();
    let mut with_more = reversed.clone();
    with_more.insert("comment".into(), "kept by a person".into());
    for other in [
        serde_json::to_vec(&value).unwrap(),
        serde_json::to_vec_pretty(&value).unwrap(),
        serde_json::to_vec_pretty(&reversed).unwrap(),
        serde_json::to_vec(&with_more).unwrap(),
        [&json[..], b"\n\n  "].concat(),
        String::from_utf8(json.clone()).unwrap().replace('\n', "\r\n").into_bytes(),
    ] {
        std::fs::write(temporary.file("s"), &other).unwrap();
        assert_eq!(storage.load("s").await.unwrap(), session);
        assert_eq!(storage.list().await.unwrap(), [session.summary()]);
        assert_eq!(storage.revision("s").await.unwrap(), revision);
        // An update rewrites the file in the current format.
        storage.update(&session, &revision).await.unwrap();
        assert!(std::fs::read(temporary.file("s")).unwrap().starts_with(b"{\n  \"format\""));
    }
}

#[tokio::test]
async fn directory_is_created_by_the_first_save() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    assert!(storage.list().await.unwrap().is_empty());
    assert!(matches!(storage.load("s").await, Err(StorageError::NotFound(_))));
    assert!(matches!(storage.delete("s").await, Err(StorageError::NotFound(_))));
    assert!(matches!(storage.revision("s").await, Err(StorageError::NotFound(_))));
    let session = Session::new("s", ".".into());
    let revision = neuron_runtime::SessionRevision::new("x");
    assert!(matches!(storage.update(&session, &revision).await, Err(StorageError::NotFound(_))));
    let appended = storage.append("s", &[], None, &revision).await;
    assert!(matches!(appended, Err(StorageError::NotFound(_))));
    assert!(names(temporary.path()).is_empty());

    let storage = FileSessionStorage::new(temporary.join("a/b/c"));
    storage.save(&session).await.unwrap();
    assert_eq!(storage.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn invalid_ids_do_not_access_files_outside() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&Session::new("s", ".".into())).await.unwrap();
    std::fs::write(temporary.join("secret.json"), "{}").unwrap();
    let before = names(temporary.path());
    neuron_conformance::session::ids(&storage).await;
    for id in ["../secret", "a/../../secret", temporary.join("secret").to_str().unwrap()] {
        assert!(matches!(storage.load(id).await, Err(StorageError::InvalidId { .. })));
        assert!(matches!(storage.delete(id).await, Err(StorageError::InvalidId { .. })));
        let session = Session::new(id, ".".into());
        assert!(matches!(storage.save(&session).await, Err(StorageError::InvalidId { .. })));
    }
    let mut after = names(temporary.path());
    after.retain(|name| !name.contains(".neuron/"));
    assert_eq!(
        after,
        before.into_iter().filter(|name| !name.contains(".neuron/")).collect::<Vec<_>>()
    );
    assert_eq!(std::fs::read_to_string(temporary.join("secret.json")).unwrap(), "{}");
}

/// The number of lock files does not grow with the number of sessions.
#[tokio::test]
async fn lock_files_do_not_accumulate() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    for index in 0..300 {
        let session = Session::new(format!("s-{index}"), ".".into());
        storage.save(&session).await.unwrap();
        storage.delete(&session.id).await.unwrap();
    }
    let names = names(&temporary.join("sessions"));
    assert!(names.len() <= 65, "{names:?}");
    assert!(names.iter().all(|name| name == ".neuron" || name.ends_with(".lock")), "{names:?}");
}

#[test]
fn storage_works_without_a_tokio_runtime() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    let session = Session::new("s", ".".into());
    storage.save(&session).now_or_never().unwrap().unwrap();
    let loaded = storage.load("s").now_or_never().unwrap().unwrap();
    assert_eq!(loaded, session);
}

/// A dropped write must not happen after a write that was started later.
#[tokio::test]
async fn dropped_write_that_waits_for_the_lock_never_happens() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    let session = |text: &str| {
        let mut session = Session::new("s", ".".into());
        session.messages = vec![Message::user(text)];
        session
    };
    storage.save(&session("first")).await.unwrap();
    let name = names(&temporary.join("sessions/.neuron")).remove(0);
    let lock = std::fs::File::open(temporary.join("sessions/.neuron").join(name)).unwrap();
    lock.lock().unwrap();
    let dropped = session("dropped");
    let mut save = Box::pin(storage.save(&dropped));
    assert!((&mut save).now_or_never().is_none());
    drop(save);
    drop(lock);
    // This write waits for the same lock, so it runs after the dropped write.
    let taken = storage.create(&session("another")).await;
    assert!(matches!(taken, Err(StorageError::Conflict { .. })));
    assert_eq!(storage.load("s").await.unwrap().messages[0].text(), "first");
    storage.save(&session("later")).await.unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages[0].text(), "later");
}

#[test]
fn storage_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync + Clone + std::fmt::Debug + 'static>(_: &T) {}
    let storage = FileSessionStorage::new(PathBuf::from("./sessions"));
    is_shared(&storage);
    assert_eq!(storage.directory(), std::path::Path::new("./sessions"));
}
