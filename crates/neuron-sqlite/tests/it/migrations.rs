//! Tests of migrations, by one and by several processes.

use std::process::{Command, Stdio};

use neuron_sqlite::rusqlite::Connection;
use neuron_sqlite::{Database, Schema, SqliteError, SqliteOptions};

use crate::support::{NOTES, add, all, open, patient, place};

const ONE: &str = NOTES.migrations[0];
const TWO: &str = "ALTER TABLE notes ADD COLUMN done INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE steps (version INTEGER);
    INSERT INTO steps VALUES (2)";
const THREE: &str = "UPDATE notes SET done = 1; INSERT INTO steps VALUES (3)";

const THIRD: Schema = Schema { migrations: &[ONE, TWO, THREE], ..NOTES };

async fn count(notes: &Database, sql: &'static str) -> i64 {
    let counted = notes.read::<_, SqliteError>(|transaction| {
        Ok(transaction.query_row(sql, [], |row| row.get(0))?)
    });
    counted.await.unwrap()
}

#[tokio::test]
async fn migration_from_each_version_keeps_the_rows() {
    for first in [&[][..], &[ONE], &[ONE, TWO], &[ONE, TWO, THREE]] {
        let (_folder, path) = place();
        if !first.is_empty() {
            let schema = Schema { migrations: first, ..NOTES };
            let notes = Database::open(&path, schema, SqliteOptions::new()).await.unwrap();
            add(&notes, "an old note").await.unwrap();
        }
        let notes = Database::open(&path, THIRD, patient()).await.unwrap();
        assert_eq!(all(&notes).await.unwrap().len(), usize::from(!first.is_empty()));
        assert_eq!(count(&notes, "PRAGMA user_version").await, 3);
        assert_eq!(count(&notes, "PRAGMA application_id").await, 0x6e6f_7465);
        assert_eq!(count(&notes, "SELECT count(*) FROM steps").await, 2);
        let undone = if first.len() < 3 { 0 } else { 1 };
        assert_eq!(count(&notes, "SELECT count(*) FROM notes WHERE done = 0").await, undone);
        drop(notes);

        let error = open(&path).await.unwrap_err();
        assert!(
            matches!(error, SqliteError::UnsupportedVersion { found: 3, supported: 1, .. }),
            "{error:?}"
        );
    }
}

/// An empty database skips the dropped versions in one transaction. A kill between them would leave a database that
/// cannot be opened.
#[tokio::test]
async fn database_of_a_dropped_version_is_refused_and_an_empty_one_skips_it() {
    const TABLES: &str = "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
        CREATE TABLE steps (version INTEGER)";
    const SINCE_TWO: Schema = Schema { migrations: &["", TABLES, THREE_ALONE], ..NOTES };
    const THREE_ALONE: &str = "INSERT INTO steps VALUES (3)";
    let (_folder, path) = place();
    let notes = Database::open(&path, SINCE_TWO, SqliteOptions::new()).await.unwrap();
    assert_eq!(count(&notes, "PRAGMA user_version").await, 3);
    drop(notes);
    Database::open(&path, SINCE_TWO, SqliteOptions::new()).await.unwrap();

    let (_folder, second) = place();
    let schema = Schema { migrations: &["", TABLES], ..NOTES };
    drop(Database::open(&second, schema, SqliteOptions::new()).await.unwrap());
    let notes = Database::open(&second, SINCE_TWO, SqliteOptions::new()).await.unwrap();
    assert_eq!(count(&notes, "SELECT count(*) FROM steps").await, 1);

    let (_folder, first) = place();
    drop(open(&first).await.unwrap());
    let before = std::fs::read(&first).unwrap();
    let error = Database::open(&first, SINCE_TWO, SqliteOptions::new()).await.unwrap_err();
    assert!(
        matches!(error, SqliteError::UnsupportedVersion { found: 1, supported: 3, .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("has schema version 1, which is too old"), "{error}");
    assert!(std::fs::read(&first).unwrap() == before, "the file has changed");
}

#[tokio::test]
async fn failed_migration_is_undone_and_can_be_repeated() {
    let (_folder, path) = place();
    const BROKEN: &str = "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1)";
    let schema = Schema { migrations: &[ONE, TWO, BROKEN], ..NOTES };
    let error = Database::open(&path, schema, SqliteOptions::new()).await.unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");

    let notes = Database::open(&path, THIRD, patient()).await.unwrap();
    assert_eq!(count(&notes, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'").await, 0);
    assert_eq!(count(&notes, "SELECT count(*) FROM steps").await, 2, "the steps before stay done");
}

#[tokio::test]
async fn failed_first_migration_leaves_an_empty_file() {
    let (_folder, path) = place();
    let schema = Schema { migrations: &["CREATE TABLE x (y); nonsense"], ..NOTES };
    Database::open(&path, schema, SqliteOptions::new()).await.unwrap_err();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    open(&path).await.unwrap();
}

const FAMILY: Schema = Schema {
    migrations: &[
        "CREATE TABLE parents (id INTEGER PRIMARY KEY);
         CREATE TABLE children (parent INTEGER NOT NULL REFERENCES parents ON DELETE CASCADE);
         INSERT INTO parents VALUES (1);
         INSERT INTO children VALUES (1)",
        "CREATE TABLE new_parents (id INTEGER PRIMARY KEY, name TEXT);
         INSERT INTO new_parents (id) SELECT id FROM parents;
         DROP TABLE parents;
         ALTER TABLE new_parents RENAME TO parents",
    ],
    ..NOTES
};

#[tokio::test]
async fn migration_can_rebuild_a_referenced_table() {
    let (_folder, path) = place();
    let family = Database::open(&path, FAMILY, SqliteOptions::new()).await.unwrap();
    assert_eq!(count(&family, "SELECT count(*) FROM children").await, 1);
    // Foreign keys are enforced again after the migration.
    let orphan = family.write::<_, SqliteError>(|transaction| {
        Ok(transaction.execute("INSERT INTO children VALUES (2)", [])?)
    });
    let error = orphan.await.unwrap_err().to_string();
    assert!(error.contains("FOREIGN KEY"), "{error}");
}

#[tokio::test]
async fn migration_that_violates_foreign_keys_is_undone() {
    let (_folder, path) = place();
    let [one, two] = FAMILY.migrations else { panic!("two versions") };
    let broken = "DELETE FROM parents";
    let steps: &'static [&'static str] = vec![*one, *two, broken].leak();
    let schema = Schema { migrations: steps, ..NOTES };
    let error = Database::open(&path, schema, SqliteOptions::new()).await.unwrap_err();
    assert!(error.to_string().ends_with("violate foreign keys after the migration to version 3"));
    let family = Database::open(&path, FAMILY, SqliteOptions::new()).await.unwrap();
    assert_eq!(count(&family, "SELECT count(*) FROM parents").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_opens_migrate_once() {
    for round in 0..20 {
        let (_folder, path) = place();
        if round % 2 == 1 {
            drop(open(&path).await.unwrap());
        }
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let path = path.clone();
                tokio::spawn(async move {
                    let notes = Database::open(&path, THIRD, patient()).await?;
                    add(&notes, "one").await
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let notes = Database::open(&path, THIRD, patient()).await.unwrap();
        assert_eq!(count(&notes, "SELECT count(*) FROM steps").await, 2);
        assert_eq!(count(&notes, "SELECT count(*) FROM notes").await, 8);
    }
}

/// Name of the test that the child processes run. The environment variable [`PLACE`] gives them the path of the
/// database.
const PROCESSES: &str = "migrations::processes_that_open_concurrently_migrate_once";
const PLACE: &str = "NEURON_SQLITE_PLACE";

#[tokio::test]
async fn processes_that_open_concurrently_migrate_once() {
    if let Ok(path) = std::env::var(PLACE) {
        let notes = Database::open(path, THIRD, patient()).await.unwrap();
        for _ in 0..20 {
            add(&notes, "one").await.unwrap();
        }
        return;
    }
    let (_folder, path) = place();
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([PROCESSES, "--exact"]).env(PLACE, &path).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let connection = Connection::open(&path).unwrap();
    let count = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM steps"), 2);
    assert_eq!(count("SELECT count(*) FROM notes"), 80);
}
