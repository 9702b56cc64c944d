//! Tests that kill processes while they create and migrate a database.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use neuron_sqlite::{Database, Schema, SqliteError, SqliteOptions};

use crate::support::{NOTES, place};

/// A schema with enough migrations to be interrupted between them.
const STEPS: Schema = Schema {
    migrations: &[
        "CREATE TABLE steps (version INTEGER PRIMARY KEY, body BLOB); INSERT INTO steps VALUES (1, zeroblob(90000))",
        "INSERT INTO steps VALUES (2, zeroblob(90000))",
        "INSERT INTO steps VALUES (3, zeroblob(90000))",
        "INSERT INTO steps VALUES (4, zeroblob(90000))",
        "INSERT INTO steps VALUES (5, zeroblob(90000))",
        "INSERT INTO steps VALUES (6, zeroblob(90000))",
    ],
    ..NOTES
};

const TEST: &str = "killed::process_killed_during_a_migration_leaves_a_valid_version";
const PLACE: &str = "NEURON_SQLITE_KILLED";

#[tokio::test]
async fn process_killed_during_a_migration_leaves_a_valid_version() {
    if let Ok(path) = std::env::var(PLACE) {
        Database::open(path, STEPS, SqliteOptions::new()).await.unwrap();
        return;
    }
    // Measures the time from the creation of the file to the end, because disks differ.
    let took = {
        let (_folder, path) = place();
        let mut child = start(&path);
        let begin = Instant::now();
        assert!(child.wait().unwrap().success());
        begin.elapsed()
    };
    let mut found = std::collections::BTreeMap::<u8, usize>::new();
    for round in 0..40 {
        let (_folder, path) = place();
        let mut child = start(&path);
        std::thread::sleep(took * round / 32);
        child.kill().unwrap();
        child.wait().unwrap();

        *found.entry(version(&path)).or_default() += 1;
        let steps = Database::open(&path, STEPS, SqliteOptions::new()).await.unwrap();
        let versions: Vec<i64> = steps
            .read::<_, SqliteError>(|transaction| {
                let mut select = transaction.prepare("SELECT version FROM steps")?;
                let versions = select.query_map([], |row| row.get(0))?;
                Ok(versions.collect::<Result<_, _>>()?)
            })
            .await
            .unwrap();
        assert_eq!(versions, [1, 2, 3, 4, 5, 6]);
    }
    assert!(found.len() > 1, "it was always killed at the same point: {found:?}");
}

/// Starts a process that creates the database, and waits until the file exists.
fn start(path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([TEST, "--exact"]).env(PLACE, path).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !path.exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child
}

/// Returns the schema version in the header of the database file. A newer version in the write-ahead log is not read.
fn version(path: &Path) -> u8 {
    fs::read(path).unwrap_or_default().get(63).copied().unwrap_or_default()
}
