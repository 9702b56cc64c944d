//! Processes that are killed while they create and migrate a database.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use neuron_sqlite::{Database, Schema, SqliteError, SqliteOptions};

use crate::support::{NOTES, place};

/// Enough steps to be killed in the middle.
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

const TEST: &str = "killed::a_process_killed_while_it_migrates_leaves_a_version";
const PLACE: &str = "NEURON_SQLITE_KILLED";

#[tokio::test]
async fn a_process_killed_while_it_migrates_leaves_a_version() {
    if let Ok(path) = std::env::var(PLACE) {
        Database::open(path, STEPS, SqliteOptions::new()).await.unwrap();
        return;
    }
    // As long as it takes from when there is a file, however slow the disk is.
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

/// Starts a process that creates the database; there is a file now.
fn start(path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([TEST, "--exact"]).env(PLACE, path).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !path.exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    child
}

/// The version that the file itself says it has, whatever SQLite would make of it.
fn version(path: &Path) -> u8 {
    fs::read(path).unwrap_or_default().get(63).copied().unwrap_or_default()
}
