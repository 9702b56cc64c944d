//! Tests of backups of a database of runs.

use neuron_durable_sqlite::{JournalError, SqliteError, SqliteRuns, accept_older};

use crate::support::{Work, place};

#[tokio::test]
async fn run_in_a_backup_continues_from_the_time_of_the_backup() {
    let (folder, path) = place();
    let copy = folder.path().join("copy.db");
    let work = Work::new(5, 1500);
    let runs = SqliteRuns::open(&path).await.unwrap();
    work.hanging_at(3).run_until_it_hangs(&runs, "begun").await;
    runs.backup(&copy).await.unwrap();
    runs.backup(&copy).await.unwrap_err();
    let messages = work.again().run(&runs, "begun").await.unwrap().messages;
    drop(runs);

    let restored = SqliteRuns::open(&copy).await.unwrap();
    let rest = work.again();
    assert_eq!(rest.run(&restored, "begun").await.unwrap().messages, messages);
    assert_eq!(rest.done(), (3, 2), "the calls after the backup");
    drop(restored);

    // Replacing the database by its backup counts as a loss of commits, unless the loss is accepted.
    std::fs::write(&path, b"").unwrap();
    let lost = SqliteRuns::open(&path).await.unwrap_err();
    assert!(matches!(lost, JournalError::Database(SqliteError::Lost { .. })), "{lost:?}");
    accept_older(&path).unwrap();
    assert!(SqliteRuns::open(&path).await.unwrap().list().await.unwrap().is_empty());
}
