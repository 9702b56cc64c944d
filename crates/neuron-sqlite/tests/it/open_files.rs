//! Tests of files that are deleted or replaced while the database is open.

#![cfg(unix)]

use std::fs;

use neuron_sqlite::{Database, SqliteError};

use crate::support::{NOTES, add, all, open, patient, place};

/// Checks that reads and writes return an error with these words.
async fn refused(notes: &Database, words: &str) {
    for error in [all(notes).await.unwrap_err(), add(notes, "lost").await.unwrap_err()] {
        assert!(matches!(error, SqliteError::Replaced { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(notes.path().to_str().unwrap()), "{text}");
    }
}

#[tokio::test]
async fn deleted_database_is_detected() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    fs::remove_file(&path).unwrap();
    refused(&notes, "deleted or replaced").await;
}

#[tokio::test]
async fn replaced_database_is_detected() {
    let (folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    let other = folder.path().join("other.db");
    add(&open(&other).await.unwrap(), "another").await.unwrap();
    fs::rename(&other, &path).unwrap();
    refused(&notes, "deleted or replaced").await;
}

#[tokio::test]
async fn deleted_log_is_detected_and_closing_keeps_its_commits() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    fs::remove_file(path.with_extension("db-wal")).unwrap();
    refused(&notes, "its log was deleted or replaced").await;
    drop(notes);
    assert_eq!(all(&open(&path).await.unwrap()).await.unwrap(), ["one"]);
}

#[tokio::test]
async fn additional_hard_link_is_detected() {
    let (folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    let other = folder.path().join("other.db");
    fs::hard_link(&path, &other).unwrap();
    refused(&notes, "another hard link").await;
    let error = open(&other).await.unwrap_err();
    assert!(matches!(error, SqliteError::Replaced { .. }), "{error:?}");
    assert!(!folder.path().join("other.db-wal").exists());
    fs::remove_file(&other).unwrap();
    add(&notes, "two").await.unwrap();
    assert_eq!(all(&notes).await.unwrap(), ["one", "two"]);
}

/// A symbolic link to a database must lead to the same database, write-ahead log and witness file.
#[tokio::test]
async fn symbolic_link_uses_the_same_database_and_witness() {
    let (folder, path) = place();
    let notes = Database::open_witnessed(&path, NOTES, patient()).await.unwrap();
    add(&notes, "one").await.unwrap();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let linked = Database::open_witnessed(&link, NOTES, patient()).await.unwrap();
    add(&linked, "two").await.unwrap();
    assert_eq!(all(&notes).await.unwrap(), ["one", "two"]);
    assert!(!folder.path().join("link.db-witness").exists());
    // The link is changed to lead to another database.
    let other = folder.path().join("other.db");
    add(&open(&other).await.unwrap(), "another").await.unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    refused(&linked, "deleted or replaced").await;
}

/// Opening a database again must not drop the file locks of the first connection. Regression test. On POSIX systems,
/// closing any descriptor of a file drops all locks of the process on this file. Therefore the descriptor that reads
/// the header of the file must stay open.
///
/// The test reads the locks from `/proc/locks`, which only Linux has.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn second_opening_keeps_the_locks_of_the_first() {
    use std::os::unix::fs::MetadataExt;
    for is_new in [true, false] {
        let (_folder, path) = place();
        if !is_new {
            drop(open(&path).await.unwrap());
        }
        let notes = open(&path).await.unwrap();
        add(&notes, "one").await.unwrap();
        let (process, file) = (std::process::id(), fs::metadata(&path).unwrap().ino());
        // While other processes take and release locks, a single read of `/proc/locks` can miss a line. It never shows
        // an additional line.
        let is_locked = || {
            let is_ours = |line: &str| {
                line.contains(&format!(" {process} ")) && line.contains(&format!(":{file} "))
            };
            (0..100).any(|_| fs::read_to_string("/proc/locks").unwrap().lines().any(is_ours))
        };
        assert!(is_locked());
        let again = open(&path).await.unwrap();
        assert!(is_locked());
        drop(open(&path).await.unwrap());
        assert!(is_locked());
        drop(notes);
        assert!(is_locked());
        drop(again);
        assert!(!is_locked());
    }
}
