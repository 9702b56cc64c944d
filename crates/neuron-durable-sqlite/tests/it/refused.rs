//! Tests of files that are not a usable journal. Opening such a file must return an error that names the cause, and
//! must leave the file unchanged.

use std::fs;
use std::path::Path;
use std::time::Duration;

use neuron_durable_sqlite::{JournalError, SqliteError, SqliteOptions, SqliteRuns};
use neuron_sqlite::{Database, Schema};
use neuron_types::DurableContext as _;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{HANGING, Work, files, place};

/// Checks that opening a file fails with these words, and that nothing in its folder changes.
async fn refused(path: &Path, words: &str) {
    let folder = path.parent().unwrap();
    let before = files(folder);
    let error = SqliteRuns::open(path).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{}{words}", path.display()), "{error:?}");
    assert!(files(folder) == before, "the folder has changed: {error}");
}

/// Writes a journal with a run that has ended.
async fn journal(path: &Path) {
    let runs = SqliteRuns::open(path).await.unwrap();
    Work::new(2, 10).run(&runs, "done").await.unwrap();
}

fn execute(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn file_that_is_not_a_database_is_refused() {
    let (folder, path) = place();
    let begins = " is no SQLite database: it does not begin as one; it is left as it is";
    for text in ["x", "A text.", &"A long text. ".repeat(1000)] {
        fs::write(&path, text).unwrap();
        refused(&path, begins).await;
    }
    fs::write(&path, [0; 8192]).unwrap();
    refused(&path, begins).await;
    let directory = folder.path().join("directory");
    fs::create_dir(&directory).unwrap();
    refused(&directory, " is no SQLite database: it is a directory; it is left as it is").await;
}

#[tokio::test]
async fn databases_of_other_applications_are_refused() {
    let (_folder, path) = place();
    let words = |owned| {
        format!(" is {owned}, not a database of neuron runs: use another file; it is left as it is")
    };
    execute(&path, "CREATE TABLE other (x); INSERT INTO other VALUES (1)");
    refused(&path, &words("a SQLite database of another application")).await;
    // The application id of the session storage.
    execute(&path, "PRAGMA application_id = 0x6e726e53; PRAGMA journal_mode = WAL");
    refused(&path, &words("a session database of neuron")).await;
}

/// The errors of other storages name a journal by its application id.
#[tokio::test]
async fn other_storage_names_a_journal() {
    let (_folder, path) = place();
    journal(&path).await;
    let notes = Schema { application: "notes", application_id: 1, migrations: &["SELECT 1"] };
    let error = Database::open(&path, notes, SqliteOptions::new()).await.unwrap_err();
    assert!(error.to_string().contains("is a run journal of neuron"), "{error}");
}

#[tokio::test]
async fn newer_table_version_is_refused() {
    let (_folder, path) = place();
    journal(&path).await;
    execute(&path, "PRAGMA user_version = 99");
    let words = " has schema version 99, and this version reads up to 3: update the crate that opens it, or use \
                 another file";
    refused(&path, words).await;
}

#[tokio::test]
async fn read_only_journal_is_refused() {
    let (_folder, path) = place();
    journal(&path).await;
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    refused(&path, " is read-only").await;
}

#[tokio::test]
async fn missing_folder_is_created() {
    let (folder, _path) = place();
    let path = folder.path().join("data").join("agents").join("runs.db");
    journal(&path).await;
    let runs = SqliteRuns::open(&path).await.unwrap();
    assert_eq!(runs.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn folder_that_cannot_be_created_is_reported() {
    let (folder, path) = place();
    fs::write(&path, "a file").unwrap();
    let error = SqliteRuns::open(path.join("runs.db")).await.unwrap_err();
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    assert!(matches!(error, JournalError::Database(SqliteError::Io { .. })), "{error:?}");
    assert_eq!(files(folder.path()).len(), 1);
}

#[tokio::test]
async fn empty_file_becomes_a_new_journal() {
    let (_folder, path) = place();
    fs::write(&path, "").unwrap();
    journal(&path).await;
    let runs = SqliteRuns::open(&path).await.unwrap();
    assert_eq!(runs.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn journal_locked_by_another_program_is_busy() {
    let (folder, path) = place();
    journal(&path).await;
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let before = fs::read(&path).unwrap();
    let options = SqliteOptions::new().busy_timeout(Duration::from_millis(50));
    let error = SqliteRuns::open_with(&path, options).await.unwrap_err();
    assert!(matches!(error, JournalError::Database(SqliteError::Busy { .. })), "{error:?}");
    let words = "is locked by another process: wait until that process is done, stop it, or use \
                 another file";
    assert_eq!(error.to_string(), format!("{} {words}", path.display()));
    assert!(fs::read(&path).unwrap() == before);
    drop(other);
    journal(&path).await;
    drop(folder);
}

#[tokio::test]
async fn signal_that_cannot_be_parsed_again_is_refused() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let context = Work::new(0, 10).open(&runs, "r").await.unwrap();
    context.start("go").await.unwrap();
    // With the feature `raw_value`, which any crate may enable, serde_json parses the text inside this object.
    let odd = json!({ "$serde_json::private::RawValue": "{" });
    let sent = match runs.signal("r", "go", &odd).await {
        Ok(()) => odd,
        Err(JournalError::NotJson { .. }) => {
            runs.signal("r", "go", json!(1)).await.unwrap();
            json!(1)
        }
        Err(error) => panic!("{error:?}"),
    };
    let received = context.wait_for_signal::<Value>("go", HANGING).await;
    assert_eq!(received.unwrap(), Some(sent));
}
