//! Tests of opening files. A file that cannot be used is not changed.

use std::fs;
use std::path::Path;

use neuron_sqlite::rusqlite::Connection;
use neuron_sqlite::{Database, Schema, SqliteError, SqliteOptions, Synchronous};

use crate::support::{NOTES, add, all, files, open, patient, place};

/// Checks that opening a file returns an error with these words after the path, and that nothing in its folder changes.
#[track_caller]
fn refused(path: &Path, words: &str) {
    let folder = path.parent().unwrap();
    let before = files(folder);
    let error = poll(Database::open(path, NOTES, SqliteOptions::new())).unwrap_err();
    let expected = format!("{}{words}", path.display());
    assert_eq!(error.to_string(), expected, "{error:?}");
    assert!(files(folder) == before, "the folder has changed: {error}");
}

/// Polls a future once. Without a runtime it must be ready immediately.
fn poll<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("there is something to wait for"),
    }
}

#[test]
fn database_works_without_a_runtime() {
    let (_folder, path) = place();
    let notes = poll(open(&path)).unwrap();
    poll(add(&notes, "one")).unwrap();
    assert_eq!(poll(all(&notes)).unwrap(), ["one"]);
}

#[tokio::test]
async fn reopened_database_has_all_writes() {
    let (folder, path) = place();
    for round in 0..3 {
        let notes = open(&path).await.unwrap();
        assert_eq!(all(&notes).await.unwrap().len(), round);
        add(&notes, "one more").await.unwrap();
        assert_eq!(notes.path(), path);
    }
    let names: Vec<_> = files(folder.path()).into_keys().collect();
    assert_eq!(names, ["notes.db"], "the last to close it leaves no log");
}

/// Regression test. With the usual umask, every user could read a new database.
#[cfg(unix)]
#[tokio::test]
async fn new_database_is_private_and_existing_database_keeps_its_mode() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (folder, path) = place();
    let check = |names: &[&str], expected: u32| {
        for name in names {
            let mode = fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, expected, "{name}");
        }
    };
    const FILES: [&str; 4] = ["notes.db", "notes.db-wal", "notes.db-shm", "notes.db-witness"];
    let notes = Database::open_witnessed(&path, NOTES, patient()).await.unwrap();
    add(&notes, "one").await.unwrap();
    notes.backup(folder.path().join("copy.db")).await.unwrap();
    check(&FILES, 0o600);
    check(&["copy.db"], 0o600);
    drop(notes);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    fs::remove_file(folder.path().join("notes.db-witness")).unwrap();
    let notes = Database::open_witnessed(&path, NOTES, patient()).await.unwrap();
    add(&notes, "two").await.unwrap();
    check(&FILES, 0o640);

    let link = folder.path().join("link.db");
    symlink(folder.path().join("target.db"), &link).unwrap();
    drop(open(&link).await.unwrap());
    check(&["target.db"], 0o600);
}

#[tokio::test]
async fn every_connection_has_the_options() {
    let (_folder, path) = place();
    let options = SqliteOptions::new().synchronous(Synchronous::Normal).readers(0);
    let normal = Database::open(&path, NOTES, options).await.unwrap();
    let full = open(&path).await.unwrap();
    for (notes, synchronous) in [(full, 2), (normal, 1)] {
        for name in ["synchronous", "foreign_keys", "cell_size_check", "trusted_schema"] {
            let ask = move |transaction: &neuron_sqlite::rusqlite::Transaction<'_>| {
                Ok(transaction.pragma_query_value(None, name, |row| row.get::<_, i64>(0))?)
            };
            let expected = match name {
                "synchronous" => synchronous,
                "trusted_schema" => 0,
                _ => 1,
            };
            assert_eq!(notes.write::<_, SqliteError>(ask).await.unwrap(), expected, "{name}");
            assert_eq!(notes.read::<_, SqliteError>(ask).await.unwrap(), expected, "{name}");
        }
        let mode: String = notes
            .read::<_, SqliteError>(|transaction| {
                Ok(transaction.pragma_query_value(None, "journal_mode", |row| row.get(0))?)
            })
            .await
            .unwrap();
        assert_eq!(mode, "wal");
    }
}

#[tokio::test]
async fn memory_database_exists_as_long_as_its_clones() {
    let notes = open(Path::new(":memory:")).await.unwrap();
    let clone = notes.clone();
    add(&notes, "one").await.unwrap();
    drop(notes);
    assert_eq!(all(&clone).await.unwrap(), ["one"]);
    let other = open(Path::new(":memory:")).await.unwrap();
    assert!(all(&other).await.unwrap().is_empty());
}

#[tokio::test]
async fn empty_file_is_a_new_database() {
    let (_folder, path) = place();
    fs::write(&path, "").unwrap();
    let notes = open(&path).await.unwrap();
    assert!(all(&notes).await.unwrap().is_empty());
}

#[test]
fn file_that_is_no_database_is_rejected() {
    let (folder, path) = place();
    let begins = " is no SQLite database: it does not begin as one; it is left as it is";
    fs::create_dir(folder.path().join("directory")).unwrap();
    refused(
        &folder.path().join("directory"),
        " is no SQLite database: it is a directory; it is left as it is",
    );
    for text in ["x", "A text.", &"A long text. ".repeat(1000)] {
        fs::write(&path, text).unwrap();
        refused(&path, begins);
    }
    fs::write(&path, [0; 8192]).unwrap();
    refused(&path, begins);
    fs::write(&path, [b"SQLite format 2\0".as_slice(), &[0; 8192]].concat()).unwrap();
    refused(&path, begins);
}

#[cfg(unix)]
#[test]
fn device_is_rejected() {
    let error = poll(open(Path::new("/dev/zero"))).unwrap_err().to_string();
    assert!(error.contains("it is no regular file"), "{error}");
}

#[test]
fn database_of_another_application_is_rejected() {
    let (_folder, path) = place();
    let nobody = Connection::open(&path).unwrap();
    nobody.execute_batch("CREATE TABLE other (x); INSERT INTO other VALUES (1)").unwrap();
    drop(nobody);
    let words = |owned| {
        format!(" is {owned}, not a database of notes: use another file; it is left as it is")
    };
    let foreign = words("a SQLite database of another application");
    refused(&path, &foreign);

    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA application_id = 0x12345678; PRAGMA journal_mode = WAL").unwrap();
    drop(other);
    refused(&path, &foreign);

    // The file is also rejected while another process has it open with a log.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("INSERT INTO other VALUES (2)").unwrap();
    refused(&path, &foreign);
    drop(other);

    for (id, owned) in
        [(0x6e72_6e53, "a session database of neuron"), (0x6e72_6e52, "a run journal of neuron")]
    {
        let storage = Connection::open(&path).unwrap();
        storage.pragma_update(None, "application_id", id).unwrap();
        drop(storage);
        refused(&path, &words(owned));
    }
}

#[test]
fn unknown_versions_are_rejected() {
    let (_folder, path) = place();
    drop(poll(open(&path)).unwrap());
    let set = |version: i32| {
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "user_version", version).unwrap();
    };
    let newer = |version: i32| {
        format!(
            " has schema version {version}, and this version reads up to 1: update the crate that opens it, or use \
             another file"
        )
    };
    for version in [2, i32::MAX] {
        set(version);
        refused(&path, &newer(version));
    }
    set(0);
    refused(&path, " is damaged: its schema has the version 0");
    set(-1);
    refused(&path, " is damaged: its schema has the version -1");
}

/// A newer schema version must be rejected even if it is only in the write-ahead log, and not in the database file.
#[test]
fn newer_version_in_the_log_is_rejected() {
    let (_folder, path) = place();
    drop(poll(open(&path)).unwrap());
    let newer = Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 7).unwrap();
    let before = fs::read(&path).unwrap();
    let error = poll(open(&path)).unwrap_err();
    assert!(matches!(error, SqliteError::UnsupportedVersion { found: 7, .. }), "{error:?}");
    assert!(fs::read(&path).unwrap() == before, "the file has changed");
    let version: i32 = newer.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 7);
}

#[test]
fn truncated_file_is_rejected() {
    let (_folder, path) = place();
    let notes = poll(open(&path)).unwrap();
    for _ in 0..5 {
        poll(add(&notes, &"note ".repeat(300))).unwrap();
    }
    drop(notes);
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > 3 * 4096, "it has several pages");
    let file = fs::File::options().write(true).open(&path).unwrap();
    for length in (1..whole.len()).rev() {
        file.set_len(length as u64).unwrap();
        let error = poll(open(&path)).unwrap_err();
        let expected = if length < 100 { 100 } else { whole.len() };
        let words =
            format!("{} is damaged: it is cut short: {length} of {expected} bytes", path.display());
        assert_eq!(error.to_string(), words);
        assert_eq!(fs::metadata(&path).unwrap().len(), length as u64);
    }
    assert!(whole.starts_with(&fs::read(&path).unwrap()));
}

#[test]
fn empty_file_with_a_log_is_rejected() {
    let (folder, path) = place();
    let notes = poll(open(&path)).unwrap();
    poll(add(&notes, "one")).unwrap();
    let mut files = files(folder.path());
    drop(notes);
    fs::write(&path, "").unwrap();
    fs::write(folder.path().join("notes.db-wal"), files.remove("notes.db-wal").unwrap()).unwrap();
    refused(&path, " is damaged: it is empty, but its log is not");
}

#[test]
fn read_only_file_is_rejected() {
    let (_folder, path) = place();
    drop(poll(open(&path)).unwrap());
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    refused(&path, " is read-only");
}

#[test]
fn missing_folders_are_created() {
    let (folder, _path) = place();
    let path = folder.path().join("data").join("agents").join("notes.db");
    let notes = poll(open(&path)).unwrap();
    poll(add(&notes, "one")).unwrap();
    drop(notes);
    assert_eq!(poll(all(&poll(open(&path)).unwrap())).unwrap(), ["one"]);
}

#[test]
fn file_system_errors_are_reported() {
    let (folder, path) = place();
    fs::write(&path, "a file").unwrap();
    let error = poll(open(&path.join("notes.db"))).unwrap_err();
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    assert!(matches!(error, SqliteError::Io { .. }), "{error:?}");
    assert_eq!(files(folder.path()).len(), 1);

    for path in ["", "a\0b", &"x".repeat(300)] {
        let error = poll(open(Path::new(path))).unwrap_err();
        assert!(matches!(error, SqliteError::Io { .. }), "{path:?}: {error:?}");
    }
}

/// Damage after the header is detected when the page is read.
#[tokio::test]
async fn damaged_pages_are_detected_on_read() {
    let (_folder, path) = place();
    let notes = open(&path).await.unwrap();
    for _ in 0..20 {
        add(&notes, &"note ".repeat(300)).await.unwrap();
    }
    drop(notes);
    let mut bytes = fs::read(&path).unwrap();
    // The first byte of a page is its type.
    for page in bytes.chunks_mut(4096).skip(2) {
        page[0] = 0xff;
    }
    fs::write(&path, &bytes).unwrap();
    let notes = open(&path).await.unwrap();
    let error = all(&notes).await.unwrap_err();
    assert!(matches!(error, SqliteError::Corrupt { source: Some(_), .. }), "{error:?}");
    let error = add(&notes, "another").await.unwrap_err();
    assert!(matches!(error, SqliteError::Corrupt { source: Some(_), .. }), "{error:?}");
    drop(notes);
    assert!(fs::read(&path).unwrap() == bytes, "it was written to");
}

#[test]
fn version_is_the_number_of_migrations() {
    assert_eq!(NOTES.version(), 1);
    assert_eq!(Schema { migrations: &["", ""], ..NOTES }.version(), 2);
}
