//! Tests of returning free space, and of full disks.

use std::fs;

use neuron_sqlite::{Database, SqliteError};
use neuron_types::StorageError;

use crate::support::{add, all, open, place};

async fn run(notes: &Database, sql: &'static str) -> Result<(), SqliteError> {
    notes.write(|transaction| Ok(transaction.execute_batch(sql)?)).await
}

#[tokio::test]
async fn reclaim_returns_the_space_of_deleted_rows() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    let size = || fs::metadata(&path).unwrap().len();
    for _ in 0..10 {
        add(&notes, &"x".repeat(1 << 20)).await.unwrap();
    }
    add(&notes, "stays").await.unwrap();
    notes.reclaim().await.unwrap();
    assert!(size() > 10 << 20, "{}", size());
    run(&notes, "DELETE FROM notes WHERE body <> 'stays'").await.unwrap();
    notes.reclaim().await.unwrap();
    assert!(size() < 1 << 20, "{}", size());
    assert_eq!(all(&notes).await.unwrap(), ["stays"]);
    // Without free space the call returns immediately.
    notes.reclaim().await.unwrap();
}

#[tokio::test]
async fn write_to_a_full_disk_is_an_error_and_changes_nothing() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "before").await.unwrap();
    run(&notes, "PRAGMA max_page_count = 50").await.unwrap();
    let error = add(&notes, &"x".repeat(1 << 20)).await.unwrap_err();
    assert!(matches!(error, SqliteError::Full { .. }), "{error:?}");
    match StorageError::from(error) {
        StorageError::Io(error) => assert_eq!(error.kind(), std::io::ErrorKind::StorageFull),
        other => panic!("{other:?}"),
    }
    assert_eq!(all(&notes).await.unwrap(), ["before"]);
    add(&notes, "a small one").await.unwrap();
    run(&notes, "PRAGMA max_page_count = 5000").await.unwrap();
    add(&notes, &"x".repeat(1 << 20)).await.unwrap();
    assert_eq!(all(&notes).await.unwrap().len(), 3);
}
