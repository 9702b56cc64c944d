//! Tests of backups, and of databases that lost their newest commits.

use std::fs;

use neuron_session_sqlite::{SqliteSessionStorage, accept_older};
use neuron_types::{SessionStorage, StorageError, VersionedSessionStorage};

use crate::support::{message, open, place, session};

#[tokio::test]
async fn restored_backup_must_be_accepted() {
    let (folder, path) = place();
    let storage = open(&path).await;
    let revision = storage.create(&session("s", 4)).await.unwrap();
    let copy = folder.path().join("copy.db");
    storage.backup(&copy).await.unwrap();
    let error = storage.backup(&copy).await.unwrap_err();
    assert!(matches!(error, StorageError::Io(_)), "{error:?}");
    storage.append("s", &[message(4)], None, &revision).await.unwrap();
    assert_eq!(open(&copy).await.load("s").await.unwrap().messages.len(), 4);

    drop(storage);
    fs::copy(&copy, &path).unwrap();
    let error = SqliteSessionStorage::open(&path).await.unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("accept_older"), "{error}");
    accept_older(&path).unwrap();
    assert_eq!(open(&path).await.load("s").await.unwrap().messages.len(), 4);
}

/// Opening a database must return an error if its write-ahead log was deleted after a process was killed. Regression
/// test. An older state of the session was loaded.
#[tokio::test]
async fn session_without_its_newest_messages_is_not_loaded() {
    let (folder, path) = place();
    let storage = open(&path).await;
    storage.create(&session("s", 4)).await.unwrap();
    drop(storage);
    let storage = open(&path).await;
    let revision = storage.revision("s").await.unwrap();
    storage.append("s", &[message(4)], None, &revision).await.unwrap();
    let killed = folder.path().join("killed.db");
    fs::copy(&path, &killed).unwrap();
    fs::copy(path.with_extension("db-witness"), killed.with_extension("db-witness")).unwrap();
    let error = SqliteSessionStorage::open(&killed).await.unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error:?}");

    // With its log the database is complete.
    fs::copy(path.with_extension("db-wal"), killed.with_extension("db-wal")).unwrap();
    assert_eq!(open(&killed).await.load("s").await.unwrap().messages.len(), 5);
}
