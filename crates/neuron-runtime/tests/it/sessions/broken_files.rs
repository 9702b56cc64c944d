//! Tests of damaged and foreign files. Errors name the file, and the file is not overwritten.

use std::path::Path;

use neuron_runtime::{
    FileSessionStorage, Session, SessionRevision, SessionStorage, SessionSummary,
    VersionedSessionStorage,
};
use neuron_types::{Message, StorageError};

use crate::sessions::temporary::{Temporary, as_version_1};

fn session(id: &str) -> Session {
    let mut session = Session::new(id, ".".into());
    session.messages =
        vec![Message::user("one"), Message::assistant("two"), Message::user("three")];
    session
}

/// Checks that all methods of the storage reject a broken file without changing it. Each error must name the file and
/// satisfy `is_right`. `list` must not fail, and must report the error as the session's damage.
async fn refused(
    storage: &FileSessionStorage,
    file: &Path,
    is_right: &dyn Fn(&StorageError) -> bool,
) {
    let before = std::fs::read(file).unwrap();
    let error = storage.revision("s").await.unwrap_err();
    let listed = storage.list().await.unwrap();
    assert_eq!(listed, [SessionSummary::damaged("s", &error)]);
    let mut errors = vec![("revision", error)];
    errors.extend(written(storage).await);
    check(&before, file, errors, is_right);
}

/// Checks that methods reject a file that is damaged in the middle, without changing it. Only methods that read the
/// whole file are called.
async fn refused_when_read(storage: &FileSessionStorage, file: &Path) {
    let before = std::fs::read(file).unwrap();
    let errors = written(storage).await;
    check(&before, file, errors, &is_corrupt);
}

async fn written(storage: &FileSessionStorage) -> Vec<(&'static str, StorageError)> {
    let session = session("s");
    let revision = SessionRevision::new("x");
    vec![
        ("save", storage.save(&session).await.unwrap_err()),
        ("create", storage.create(&session).await.unwrap_err()),
        ("load_versioned", storage.load_versioned("s").await.unwrap_err()),
        ("update", storage.update(&session, &revision).await.unwrap_err()),
        ("append", storage.append("s", &[], None, &revision).await.unwrap_err()),
        ("load", storage.load("s").await.unwrap_err()),
    ]
}

#[track_caller]
fn check(
    before: &[u8],
    file: &Path,
    errors: Vec<(&'static str, StorageError)>,
    is_right: &dyn Fn(&StorageError) -> bool,
) {
    for (method, error) in errors {
        let text = String::from_utf8_lossy(before);
        assert!(is_right(&error), "{method}: {error:?} for {text:.300}");
        assert!(error.to_string().contains(file.to_str().unwrap()), "{method}: {error}");
    }
    assert_eq!(std::fs::read(file).unwrap(), before);
}

fn is_corrupt(error: &StorageError) -> bool {
    matches!(error, StorageError::Corrupt { .. })
}

#[tokio::test]
async fn truncated_file_is_corrupt() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let file = temporary.file("s");
    let whole = std::fs::read(&file).unwrap();
    for length in 0..whole.len() {
        std::fs::write(&file, &whole[..length]).unwrap();
        refused(&storage, &file, &is_corrupt).await;
    }

    // Version 1 has no checksum. Without the last line feed it is still the same JSON.
    let whole = as_version_1(&String::from_utf8(whole).unwrap());
    for length in 0..whole.len() - 1 {
        std::fs::write(&file, &whole[..length]).unwrap();
        refused(&storage, &file, &is_corrupt).await;
    }
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages.len(), 3);
    storage.save(&session("s")).await.unwrap();
}

/// A file with any changed bit must be reported as corrupt. Regression test. Before files had checksums, most changed
/// bits were loaded without an error.
#[tokio::test]
async fn file_with_a_changed_bit_is_corrupt() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let file = temporary.file("s");
    let whole = std::fs::read(&file).unwrap();
    let head = whole.windows(14).position(|bytes| bytes == b"  \"messages\": ").unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&file, &bytes).unwrap();
        let error = storage.load("s").await.unwrap_err();
        assert!(is_corrupt(&error), "bit {bit}: {error:?}");
        let text = error.to_string();
        assert!(text.contains(file.to_str().unwrap()), "bit {bit}: {text}");
        assert!(
            text.contains("restore it from a backup, or delete the session"),
            "bit {bit}: {text}"
        );
        // `list` does not read messages, so it detects only damage before them.
        let listed = storage.list().await.unwrap();
        if bit / 8 < head {
            assert!(listed[0].damage.is_some(), "bit {bit}: {listed:?}");
            let error = storage.revision("s").await.unwrap_err();
            assert!(is_corrupt(&error), "bit {bit}: {error:?}");
        }
    }
    // A brace after the document is ignored, because an interrupted append leaves it.
    for byte in (0..=u8::MAX).filter(|byte| *byte != b'{') {
        std::fs::write(&file, [&whole[..], &[byte]].concat()).unwrap();
        refused(&storage, &file, &is_corrupt).await;
    }
    std::fs::write(&file, &whole).unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages.len(), 3);
}

#[tokio::test]
async fn damaged_session_can_be_deleted() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    storage.save(&session("other")).await.unwrap();
    let file = temporary.file("s");
    let whole = std::fs::read(&file).unwrap();
    for length in [0, 1, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&file, &whole[..length]).unwrap();
        let listed = storage.list().await.unwrap();
        assert_eq!(
            listed.iter().map(|one| one.damage.is_some()).collect::<Vec<_>>(),
            [false, true]
        );
        storage.delete("s").await.unwrap();
        assert!(!file.exists());
        assert_eq!(storage.list().await.unwrap().len(), 1);
    }
    storage.save(&session("s")).await.unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages.len(), 3);
}

#[tokio::test]
async fn file_without_its_beginning_is_corrupt() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let file = temporary.file("s");
    let whole = std::fs::read(&file).unwrap();
    for start in 1..whole.len() {
        std::fs::write(&file, &whole[start..]).unwrap();
        refused(&storage, &file, &is_corrupt).await;
    }
}

#[tokio::test]
async fn foreign_file_is_corrupt() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let file = temporary.file("s");
    let ours = as_version_1(&std::fs::read_to_string(&file).unwrap());
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let foreign = [
        String::new(),
        " \n".into(),
        "null".into(),
        "[]".into(),
        "{}".into(),
        "\"neuron session\"".into(),
        "{\"name\": \"left-pad\", \"version\": \"1.3.0\"}".into(),
        "{\"format\": \"neuron session\"}".into(),
        "{\"format\": \"neuron session\", \"version\": 1}".into(),
        deep.clone(),
        ours.replace("neuron session", "another session"),
        ours.replace("\"version\": 1", "\"version\": 0"),
        ours.replace("\"version\": 1", "\"version\": -1"),
        ours.replace("\"version\": 1", "\"version\": \"1\""),
        ours.replace("\"id\": \"s\"", "\"id\": \"other\""),
        ours.replace("\"id\": \"s\"", "\"id\": \"S\""),
        ours.replace("\"id\": \"s\",\n", ""),
        ours.replace("\"revision\"", "\"other\""),
        ours.replace("\"created_at\": \"2", "\"created_at\": \"yesterday 2"),
        format!("{ours}x"),
        format!("\u{feff}{ours}"),
        // A file of one line is read completely.
        ours.replace('\n', "").replace("\"message_count\": 3", "\"message_count\": 4"),
        ours.replace('\n', "").replace("\"messages\": [", "\"messages\": {").replace(']', "}"),
    ];
    // Later versions must have checksums.
    let foreign = foreign.into_iter().chain(
        [2, 3].map(|version| ours.replace("\"version\": 1", &format!("\"version\": {version}"))),
    );
    for text in foreign {
        std::fs::write(&file, text).unwrap();
        refused(&storage, &file, &is_corrupt).await;
    }
    for bytes in [&[0u8; 5000][..], &[0xff, 0xfe, b'{'], &[b'\n'; 5000]] {
        std::fs::write(&file, bytes).unwrap();
        refused(&storage, &file, &is_corrupt).await;
    }
}

/// Damage of messages is detected when the whole file is read.
#[tokio::test]
async fn file_with_invalid_messages_is_corrupt() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let file = temporary.file("s");
    let ours = as_version_1(&std::fs::read_to_string(&file).unwrap());
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (from, to) in [
        ("\"user\"", "\"nobody\""),
        ("\"type\":\"text\"", "\"type\":\"smell\""),
        ("{\"role\":\"assistant\"", "{{\"role\":\"assistant\""),
        ("\"two\"", "\"two"),
        ("\"two\"", "\u{0}"),
        ("\"two\"", deep.as_str()),
        ("\"message_count\": 3", "\"message_count\": 2"),
        ("\"message_count\": 3", "\"message_count\": 4"),
    ] {
        let text = ours.replacen(from, to, 1);
        assert_ne!(text, ours);
        std::fs::write(&file, &text).unwrap();
        refused_when_read(&storage, &file).await;
    }
    std::fs::write(&file, format!("{ours}{ours}")).unwrap();
    refused_when_read(&storage, &file).await;
}

#[tokio::test]
async fn file_of_a_newer_version_is_not_changed() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let file = temporary.file("s");
    let ours = as_version_1(&std::fs::read_to_string(&file).unwrap());
    let is_newer = |error: &StorageError| {
        matches!(error, StorageError::UnsupportedVersion { supported: 3, found: 4.., .. })
    };
    for text in [
        ours.replace("\"version\": 1", "\"version\": 4"),
        ours.replace("\"version\": 1", "\"version\": 18446744073709551615"),
        // A newer version may have other fields.
        "{\"format\": \"neuron session\", \"version\": 4, \"chunks\": []}".into(),
        "{\"version\": 4, \"messages\": {}, \"format\": \"neuron session\"}".into(),
    ] {
        std::fs::write(&file, text).unwrap();
        refused(&storage, &file, &is_newer).await;
        // The file is not damaged, because a newer release can read it.
        assert!(is_newer(&storage.delete("s").await.unwrap_err()));
        assert!(file.exists());
    }
}

/// A damaged file does not affect other sessions.
#[tokio::test]
async fn corrupt_file_does_not_affect_other_sessions() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    storage.save(&session("other")).await.unwrap();
    std::fs::write(temporary.file("s"), "half").unwrap();
    assert_eq!(storage.load("other").await.unwrap().messages.len(), 3);
    storage.save(&session("third")).await.unwrap();
    storage.delete("other").await.unwrap();
}

#[tokio::test]
async fn files_with_other_names_are_ignored() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("s")).await.unwrap();
    let names = [".hidden.json", "notes.txt", "s.json.tmp", "s.JSON", ".json", "json", "con.json"];
    for name in names {
        std::fs::write(temporary.join("sessions").join(name), "no session").unwrap();
    }
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"\xff.json");
        std::fs::write(temporary.join("sessions").join(name), "no session").unwrap();
    }
    let ids: Vec<String> = storage.list().await.unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(ids, ["s"]);
    for name in names {
        let path = temporary.join("sessions").join(name);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "no session");
    }
}

/// A directory in place of a session's file is an error, and does not affect other sessions.
#[tokio::test]
async fn directory_instead_of_a_file_is_an_error() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("other")).await.unwrap();
    std::fs::create_dir(temporary.file("s")).unwrap();
    for error in [
        storage.save(&session("s")).await.unwrap_err(),
        storage.load("s").await.unwrap_err(),
        storage.delete("s").await.unwrap_err(),
    ] {
        assert!(matches!(error, StorageError::Io(_)), "{error:?}");
        assert!(error.to_string().contains(temporary.file("s").to_str().unwrap()), "{error}");
    }
    assert!(temporary.file("s").is_dir());
    let listed = storage.list().await.unwrap();
    assert_eq!(listed[0].damage, None);
    assert!(listed[1].damage.as_ref().unwrap().contains("not a regular file"), "{listed:?}");
}

/// A pipe or a device in place of a session's file must be an error, and must not be read. Reading a pipe would wait
/// for ever for a writer. Reading some devices would never end.
#[cfg(unix)]
#[tokio::test]
async fn pipe_or_device_instead_of_a_file_is_an_error() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    storage.save(&session("other")).await.unwrap();
    let file = temporary.file("s");
    for make in ["mkfifo \"$0\"", "ln -s /dev/zero \"$0\""] {
        let made = std::process::Command::new("sh").args(["-c", make]).arg(&file).status();
        assert!(made.unwrap().success());
        let mut errors = written(&storage).await;
        errors.push(("delete", storage.delete("s").await.unwrap_err()));
        errors.push(("revision", storage.revision("s").await.unwrap_err()));
        for (method, error) in errors {
            assert!(matches!(error, StorageError::Io(_)), "{method}: {error:?}");
            assert!(error.to_string().contains(file.to_str().unwrap()), "{method}: {error}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
