//! Files that are deleted or replaced while the database is open.

#![cfg(unix)]

use std::fs;

use neuron_sqlite::{Database, SqliteError};

use crate::support::{NOTES, add, all, open, patient, place};

/// Checks that reading and writing fail in these words.
async fn refused(notes: &Database, words: &str) {
    for error in [all(notes).await.unwrap_err(), add(notes, "lost").await.unwrap_err()] {
        assert!(matches!(error, SqliteError::Replaced { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(notes.path().to_str().unwrap()), "{text}");
    }
}

#[tokio::test]
async fn a_database_that_was_deleted_is_noticed() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    fs::remove_file(&path).unwrap();
    refused(&notes, "deleted or replaced").await;
}

#[tokio::test]
async fn a_database_that_was_replaced_is_noticed() {
    let (folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    let other = folder.path().join("other.db");
    add(&open(&other).await.unwrap(), "another").await.unwrap();
    fs::rename(&other, &path).unwrap();
    refused(&notes, "deleted or replaced").await;
}

#[tokio::test]
async fn a_log_that_was_deleted_is_noticed_and_closing_writes_it_to_the_database() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    fs::remove_file(path.with_extension("db-wal")).unwrap();
    refused(&notes, "its log was deleted or replaced").await;
    drop(notes);
    assert_eq!(all(&open(&path).await.unwrap()).await.unwrap(), ["one"]);
}

#[tokio::test]
async fn another_hard_link_is_noticed() {
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

/// A symbolic link is another name for the path, and has the same log.
#[tokio::test]
async fn a_symbolic_link_leads_to_the_database_and_its_witness() {
    let (folder, path) = place();
    let notes = Database::open_witnessed(&path, NOTES, patient()).await.unwrap();
    add(&notes, "one").await.unwrap();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let linked = Database::open_witnessed(&link, NOTES, patient()).await.unwrap();
    add(&linked, "two").await.unwrap();
    assert_eq!(all(&notes).await.unwrap(), ["one", "two"]);
    assert!(!folder.path().join("link.db-witness").exists());
    // It is made to lead elsewhere.
    let other = folder.path().join("other.db");
    add(&open(&other).await.unwrap(), "another").await.unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    refused(&linked, "deleted or replaced").await;
}

/// The second opening read the header of the file and closed it, which drops the locks of the first one. Another process
/// then took the database for unused, and could delete its log.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn lock_on_a_database_that_is_opened_twice_stays() {
    use std::os::unix::fs::MetadataExt;
    for is_new in [true, false] {
        let (_folder, path) = place();
        if !is_new {
            drop(open(&path).await.unwrap());
        }
        let notes = open(&path).await.unwrap();
        add(&notes, "one").await.unwrap();
        let (process, file) = (std::process::id(), fs::metadata(&path).unwrap().ino());
        // While locks of others come and go, one reading of the list can miss a line, but never shows one too many.
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
