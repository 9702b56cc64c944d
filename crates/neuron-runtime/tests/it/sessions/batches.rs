//! Tests of appended batches, with damage, links, files of earlier versions, and a comparison with the storage in
//! memory.

use std::fs;

use neuron_runtime::{
    FileSessionStorage, InMemorySessionStorage, Session, SessionRevision, SessionStorage,
    VersionedSessionStorage,
};
use neuron_types::{Message, StorageError};
use proptest::prelude::*;

use crate::sessions::temporary::Temporary;

/// Creates a session with one message and appends to it `batches` times. Returns the session and its revision after
/// each write.
async fn grown(
    storage: &FileSessionStorage,
    id: &str,
    batches: usize,
) -> Vec<(Session, SessionRevision)> {
    let mut session = Session::new(id, ".".into());
    session.messages = vec![Message::user("first")];
    let mut revision = storage.create(&session).await.unwrap();
    let mut written = vec![storage.load_versioned(id).await.unwrap()];
    for batch in 0..batches {
        session.state.event_count += 1;
        let state = (batch % 2 == 0).then_some(&session.state);
        let messages = [Message::assistant(format!("{id} {batch}")), Message::user("go on")];
        revision = storage.append(id, &messages, state, &revision).await.unwrap();
        written.push(storage.load_versioned(id).await.unwrap());
        assert_eq!(written[batch + 1].1, revision);
        assert_eq!(written[batch + 1].0.messages.len(), 3 + 2 * batch);
        assert_eq!(storage.list().await.unwrap()[0], written[batch + 1].0.summary());
    }
    written
}

async fn check_corrupt(
    storage: &FileSessionStorage,
    temporary: &Temporary,
    bytes: &[u8],
    what: &str,
) {
    let file = temporary.file("s");
    fs::write(&file, bytes).unwrap();
    let error = storage.load("s").await.unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{what}: {error:?}");
    assert!(error.to_string().contains(file.to_str().unwrap()), "{what}: {error}");
    let saved = storage.save(&Session::new("s", ".".into())).await;
    assert!(matches!(saved, Err(StorageError::Corrupt { .. })), "{what}: {saved:?}");
    assert_eq!(fs::read(&file).unwrap(), bytes, "{what}");
}

/// Returns the position of each batch in a file, and the length of the file, in bytes.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let opening = b"{\"messages\":[";
    let mut starts: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(opening)).collect();
    starts.push(bytes.len());
    starts
}

#[tokio::test]
async fn cut_of_acknowledged_batches_is_damage() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    grown(&storage, "s", 3).await;
    let whole = fs::read(temporary.file("s")).unwrap();
    for length in 0..whole.len() {
        check_corrupt(&storage, &temporary, &whole[..length], &format!("cut at {length}")).await;
    }
}

#[tokio::test]
async fn interrupted_append_loses_only_its_batch() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    let written = grown(&storage, "s", 3).await;
    let mut whole = fs::read(temporary.file("s")).unwrap();
    let last = starts(&whole)[2];
    assert_eq!(whole[last - 1], b'\r');
    whole[last - 1] = b'\n';
    let (before, revision) = &written[2];
    for length in last..whole.len() {
        fs::write(temporary.file("s"), &whole[..length]).unwrap();
        assert_eq!(storage.load_versioned("s").await.unwrap(), written[2], "cut at {length}");
        assert_eq!(storage.revision("s").await.unwrap(), *revision, "cut at {length}");
        assert_eq!(storage.list().await.unwrap(), [before.summary()], "cut at {length}");
        let stale = storage.append("s", &[], None, &written[3].1).await;
        assert!(matches!(stale, Err(StorageError::Conflict { .. })), "cut at {length}");
        storage.append("s", &[Message::user("new")], None, revision).await.unwrap();
        let messages = storage.load("s").await.unwrap().messages;
        assert_eq!(messages[..5], before.messages, "cut at {length}");
        assert_eq!(messages[5..], [Message::user("new")], "cut at {length}");
    }
    // Simulates a process that stopped after it synced the batch and before it wrote the byte `FOLLOWED`, which marks
    // that a batch follows.
    fs::write(temporary.file("s"), &whole).unwrap();
    assert_eq!(storage.load_versioned("s").await.unwrap(), written[3]);
}

#[tokio::test]
async fn changed_bit_in_a_batch_is_damage() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    grown(&storage, "s", 2).await;
    let whole = fs::read(temporary.file("s")).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        check_corrupt(&storage, &temporary, &bytes, &format!("bit {bit}")).await;
    }
}

#[tokio::test]
async fn reordered_or_foreign_batch_is_damage() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    grown(&storage, "other", 3).await;
    let other = fs::read(temporary.file("other")).unwrap();
    storage.delete("other").await.unwrap();
    grown(&storage, "s", 3).await;
    let whole = fs::read(temporary.file("s")).unwrap();
    let (at, from) = (starts(&whole), starts(&other));
    let part = |index: usize| &whole[at[index]..at[index + 1]];
    let document = &whole[..at[0]];
    let foreign = &other[from[2]..];
    for (what, parts) in [
        ("swapped", vec![document, part(1), part(0), part(2)]),
        ("missing", vec![document, part(0), part(2)]),
        ("twice", vec![document, part(0), part(0), part(1), part(2)]),
        ("last twice", vec![document, part(0), part(1), part(2), part(2)]),
        ("foreign", vec![document, part(0), part(1), foreign]),
        ("all foreign", vec![document, &other[from[0]..]]),
        ("more", vec![&whole, b"x"]),
        ("zeros", vec![&whole, &[0; 4096]]),
    ] {
        check_corrupt(&storage, &temporary, &parts.concat(), what).await;
    }
    fs::write(temporary.file("s"), &other).unwrap();
    check_corrupt(&storage, &temporary, &other, "other session").await;
}

#[cfg(unix)]
#[tokio::test]
async fn append_keeps_the_file_but_replaces_links() {
    use std::os::unix::fs::MetadataExt;

    let temporary = Temporary::new();
    let storage = temporary.storage();
    let file = temporary.file("s");
    let inode = || fs::metadata(&file).unwrap().ino();
    let (_, mut revision) = grown(&storage, "s", 1).await.remove(1);
    let before = inode();
    revision = storage.append("s", &[Message::user("a")], None, &revision).await.unwrap();
    assert_eq!(inode(), before);

    let copy = temporary.join("copy");
    for link in ["hard", "symbolic"] {
        let bytes = fs::read(&file).unwrap();
        match link {
            "hard" => fs::hard_link(&file, &copy).unwrap(),
            _ => {
                fs::rename(&file, &copy).unwrap();
                std::os::unix::fs::symlink(&copy, &file).unwrap();
            }
        }
        let count = storage.load("s").await.unwrap().messages.len();
        revision = storage.append("s", &[Message::user("b")], None, &revision).await.unwrap();
        assert_eq!(fs::read(&copy).unwrap(), bytes, "{link}");
        assert!(fs::symlink_metadata(&file).unwrap().is_file(), "{link}");
        assert_eq!(storage.load("s").await.unwrap().messages.len(), count + 1, "{link}");
        fs::remove_file(&copy).unwrap();
    }
}

#[tokio::test]
async fn append_converts_files_of_earlier_versions() {
    for text in [include_str!("version-1.json"), include_str!("version-2.json")] {
        let temporary = Temporary::new();
        let storage = temporary.storage();
        fs::create_dir(temporary.join("sessions")).unwrap();
        fs::write(temporary.file("chat-42"), text).unwrap();
        let (before, mut revision) = storage.load_versioned("chat-42").await.unwrap();
        for count in 1..3 {
            let message = [Message::user("more")];
            revision = storage.append("chat-42", &message, None, &revision).await.unwrap();
            let loaded = storage.load("chat-42").await.unwrap();
            assert_eq!(loaded.messages[..3], before.messages);
            assert_eq!(loaded.messages.len(), 3 + count);
            assert_eq!(loaded.state, before.state);
        }
    }
}

/// Outdated states, which later appends replaced, must be removed from the file from time to time. Otherwise the file
/// of this test would grow to 20 MB.
#[tokio::test]
async fn outdated_states_do_not_accumulate() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    let mut session = Session::new("s", ".".into());
    let mut revision = storage.create(&session).await.unwrap();
    for count in 0..200 {
        session.state.custom.insert("notes".into(), format!("{count}").repeat(40_000).into());
        revision = storage.append("s", &[], Some(&session.state), &revision).await.unwrap();
        let length = fs::metadata(temporary.file("s")).unwrap().len();
        assert!(length < 1 << 20, "{length}");
    }
    assert_eq!(storage.load("s").await.unwrap().state, session.state);
}

#[tokio::test]
async fn append_stores_a_huge_message() {
    let temporary = Temporary::new();
    let storage = temporary.storage();
    let (_, revision) = grown(&storage, "s", 1).await.remove(1);
    let huge = Message::user("\r\n{\"messages\":[ \u{1f600}".repeat(500_000));
    storage.append("s", std::slice::from_ref(&huge), None, &revision).await.unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages[3], huge);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_equal_the_storage_in_memory(
        writes in prop::collection::vec((0..6u8, prop::collection::vec("\\PC{0,40}", 0..4)), 1..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let temporary = Temporary::new();
            let (file, memory) = (temporary.storage(), InMemorySessionStorage::new());
            let mut session = Session::new("s", ".".into());
            let mut first = file.create(&session).await.unwrap();
            let mut second = memory.create(&session).await.unwrap();
            for (kind, texts) in writes {
                let messages: Vec<Message> = texts.iter().map(Message::user).collect();
                match kind {
                    0 => {
                        session.messages = messages;
                        first = file.update(&session, &first).await.unwrap();
                        second = memory.update(&session, &second).await.unwrap();
                    }
                    _ => {
                        session.state.event_count += 1;
                        let state = (kind > 2).then_some(&session.state);
                        first = file.append("s", &messages, state, &first).await.unwrap();
                        second = memory.append("s", &messages, state, &second).await.unwrap();
                    }
                }
                let (stored, revision) = temporary.storage().load_versioned("s").await.unwrap();
                let mut expected = memory.load("s").await.unwrap();
                expected.updated_at = stored.updated_at;
                assert_eq!(stored, expected);
                assert_eq!(revision, first);
                assert_eq!(file.list().await.unwrap(), [stored.summary()]);
                session = stored;
            }
        });
    }
}
