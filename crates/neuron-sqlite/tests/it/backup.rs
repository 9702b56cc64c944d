//! Tests of backups.

use std::fs;
use std::path::Path;

use neuron_sqlite::rusqlite::Connection;
use neuron_sqlite::{Database, SqliteError, accept_older};

use crate::support::{NOTES, add, all, files, open, patient, place};

#[tokio::test]
async fn backup_contains_all_commits_in_one_file() {
    let (folder, path) = place();
    let notes = Database::open_witnessed(&path, NOTES, patient()).await.unwrap();
    for number in 0..50 {
        add(&notes, &format!("note {number}")).await.unwrap();
    }
    let copy = folder.path().join("copy.db");
    notes.backup(&copy).await.unwrap();
    add(&notes, "after").await.unwrap();
    let names: Vec<_> =
        files(folder.path()).into_keys().filter(|name| name.starts_with("copy")).collect();
    assert_eq!(names, ["copy.db"]);

    let elsewhere = tempfile::tempdir().unwrap();
    let restored = elsewhere.path().join("notes.db");
    fs::copy(&copy, &restored).unwrap();
    let restored = Database::open_witnessed(&restored, NOTES, patient()).await.unwrap();
    assert_eq!(all(&restored).await.unwrap().len(), 50);
    add(&restored, "another").await.unwrap();

    // A backup in place of a newer database must be accepted explicitly.
    drop(notes);
    fs::copy(&copy, &path).unwrap();
    let opened = Database::open_witnessed(&path, NOTES, patient()).await;
    assert!(matches!(opened, Err(SqliteError::Lost { .. })), "{opened:?}");
    accept_older(&path).unwrap();
    let notes = Database::open_witnessed(&path, NOTES, patient()).await.unwrap();
    assert_eq!(all(&notes).await.unwrap().len(), 50);
}

#[tokio::test]
async fn backup_does_not_replace_a_file() {
    let (folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    let copy = folder.path().join("copy.db");
    for content in ["", "something"] {
        fs::write(&copy, content).unwrap();
        let error = notes.backup(&copy).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("copy.db") && text.contains("does not replace a file"), "{text}");
        assert_eq!(fs::read_to_string(&copy).unwrap(), content);
    }
    let error = notes.backup(&path).await.unwrap_err();
    assert!(matches!(error, SqliteError::Io { .. }), "{error:?}");
    let error = notes.backup(folder.path().join("missing").join("copy.db")).await.unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");

    // An interrupted backup has left an unfinished file.
    fs::remove_file(&copy).unwrap();
    fs::write(folder.path().join("copy.db-unfinished"), "half").unwrap();
    notes.backup(&copy).await.unwrap();
    assert_eq!(all(&open(&copy).await.unwrap()).await.unwrap(), ["one"]);
    assert!(!folder.path().join("copy.db-unfinished").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn backup_during_writes_is_consistent() {
    let (folder, path) = place();
    let notes = open(&path).await.unwrap();
    let writer = notes.clone();
    let writing = tokio::spawn(async move {
        for _ in 0..60 {
            let pair = writer.write::<_, SqliteError>(|transaction| {
                transaction.execute("INSERT INTO notes (body) VALUES ('a'), ('b')", [])?;
                Ok(())
            });
            pair.await.unwrap();
        }
    });
    let mut last = 0;
    for number in 0..6 {
        let copy = folder.path().join(format!("copy-{number}.db"));
        notes.backup(&copy).await.unwrap();
        let count = all(&open(&copy).await.unwrap()).await.unwrap().len();
        assert!(count % 2 == 0 && count >= last, "{count} after {last}");
        last = count;
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn backup_of_a_memory_database_is_a_file() {
    let (_folder, path) = place();
    let notes = open(Path::new(":memory:")).await.unwrap();
    add(&notes, "one").await.unwrap();
    notes.backup(&path).await.unwrap();
    assert_eq!(all(&open(&path).await.unwrap()).await.unwrap(), ["one"]);
}

#[tokio::test]
async fn backup_of_a_damaged_database_is_an_error() {
    let (folder, path) = place();
    let notes = open(&path).await.unwrap();
    for _ in 0..20 {
        add(&notes, &"note ".repeat(300)).await.unwrap();
    }
    drop(notes);
    let root: usize = Connection::open(&path)
        .unwrap()
        .query_one("SELECT rootpage FROM sqlite_schema WHERE name = 'notes'", [], |row| row.get(0))
        .unwrap();
    let mut bytes = fs::read(&path).unwrap();
    // The changed header of the page hides its last cell.
    bytes[(root - 1) * 4096 + 4] -= 1;
    fs::write(&path, &bytes).unwrap();
    let notes = open(&path).await.unwrap();
    let copy = folder.path().join("copy.db");
    let error = notes.backup(&copy).await.unwrap_err();
    assert!(matches!(error, SqliteError::Corrupt { .. }), "{error:?}");
    assert!(!copy.exists() && !folder.path().join("copy.db-unfinished").exists());
}

/// A backup must return an error while another backup to the same path is in progress. Regression test. The second
/// backup deleted the unfinished file of the first backup. The first backup then gave the final name to the incomplete
/// file of the second backup.
#[tokio::test]
async fn concurrent_backup_to_the_same_path_is_an_error() {
    let (folder, path) = place();
    let (notes, copy) = (open(&path).await.unwrap(), folder.path().join("copy.db"));
    add(&notes, "one").await.unwrap();
    let other = fs::File::create(folder.path().join("copy.db-unfinished")).unwrap();
    other.lock().unwrap();
    let error = notes.backup(&copy).await.unwrap_err().to_string();
    assert!(error.contains("another backup writes to this path"), "{error}");
    other.unlock().unwrap();
    notes.backup(&copy).await.unwrap();
    assert_eq!(all(&open(&copy).await.unwrap()).await.unwrap(), ["one"]);
}
