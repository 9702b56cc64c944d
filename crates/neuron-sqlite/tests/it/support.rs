//! Helpers for the tests, which use databases of notes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use neuron_sqlite::{Database, Schema, SqliteError, SqliteOptions};
use tempfile::TempDir;

/// A schema with one table and one version.
pub(crate) const NOTES: Schema = Schema {
    application: "notes",
    application_id: 0x6e6f_7465,
    migrations: &["CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT"],
};

/// Returns the path of a database in a temporary folder. The folder is deleted when the first value is dropped.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.db");
    (folder, path)
}

pub(crate) async fn open(path: &Path) -> Result<Database, SqliteError> {
    Database::open(path, NOTES, patient()).await
}

/// Options with a long wait for other writers, because SQLite has no queue and disks may be slow.
pub(crate) fn patient() -> SqliteOptions {
    SqliteOptions::new().busy_timeout(Duration::from_secs(600))
}

pub(crate) async fn add(notes: &Database, body: &str) -> Result<(), SqliteError> {
    let body = body.to_owned();
    notes
        .write(move |transaction| {
            transaction.execute("INSERT INTO notes (body) VALUES (?1)", [body])?;
            Ok(())
        })
        .await
}

pub(crate) async fn all(notes: &Database) -> Result<Vec<String>, SqliteError> {
    notes
        .read(|transaction| {
            let mut select = transaction.prepare("SELECT body FROM notes ORDER BY id")?;
            let bodies = select.query_map([], |row| row.get(0))?;
            Ok(bodies.collect::<Result<_, _>>()?)
        })
        .await
}

/// Returns the content of every file in a folder, by name.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let bytes = fs::read(entry.path()).unwrap_or_default();
        (entry.file_name().into_string().unwrap(), bytes)
    });
    files.collect()
}
