//! Tests of databases that lost commits, which must be detected by the witness, the file that counts commits.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use neuron_sqlite::{Database, SqliteError, SqliteOptions, Synchronous, accept_older};
use neuron_types::StorageError;

use crate::support::{NOTES, add, all, files, patient, place};

const NOTES_COUNT: usize = 12;

async fn open(path: &Path) -> Result<Database, SqliteError> {
    Database::open_witnessed(path, NOTES, patient()).await
}

/// Replaces the content of a folder with these files.
fn put(folder: &Path, files: &BTreeMap<String, Vec<u8>>) {
    fs::remove_dir_all(folder).unwrap();
    fs::create_dir(folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// Adds notes to a database and returns its files, as a killed process would leave them. The first note is in the
/// database file, and the other notes are only in the write-ahead log.
async fn crashed(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let notes = open(path).await.unwrap();
    add(&notes, "note 0").await.unwrap();
    notes.checkpoint().await.unwrap();
    for number in 1..NOTES_COUNT {
        add(&notes, &format!("note {number}")).await.unwrap();
    }
    let mut files = files(path.parent().unwrap());
    // The file contains the shared memory of the processes, which is lost with them.
    files.remove("notes.db-shm");
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["notes.db", "notes.db-wal", "notes.db-witness"]);
    files
}

/// Returns `true` if the database was opened and has all notes. Returns `false` if opening failed without a change of
/// the files. Panics in any other case.
#[track_caller]
fn is_there(
    path: &Path,
    opened: Result<Vec<String>, SqliteError>,
    before: &BTreeMap<String, Vec<u8>>,
) -> bool {
    match opened {
        Ok(notes) => {
            assert_eq!(notes.len(), NOTES_COUNT, "an earlier state was read");
            true
        }
        Err(error) => {
            let mut after = files(path.parent().unwrap());
            after.remove("notes.db-shm");
            // SQLite creates an empty log.
            after.retain(|name, bytes| before.contains_key(name) || !bytes.is_empty());
            assert!(after == *before, "the files have changed: {error}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            false
        }
    }
}

async fn read(path: &Path) -> Result<Vec<String>, SqliteError> {
    all(&open(path).await?).await
}

#[tokio::test]
async fn missing_log_is_detected() {
    let (folder, path) = place();
    let whole = crashed(&path).await;
    put(folder.path(), &whole);
    assert!(is_there(&path, read(&path).await, &whole));

    let mut lost = whole.clone();
    lost.remove("notes.db-wal");
    put(folder.path(), &lost);
    let error = open(&path).await.unwrap_err();
    assert!(matches!(error, SqliteError::Lost { found: 1, expected: 12, .. }), "{error:?}");
    let text = StorageError::from(error).to_string();
    assert!(text.contains("accept_older") && text.contains("notes.db-witness"), "{text}");
    assert!(!is_there(&path, read(&path).await, &lost));

    // The user accepts the older state.
    accept_older(&path).unwrap();
    accept_older(&path).unwrap();
    let notes = open(&path).await.unwrap();
    assert_eq!(all(&notes).await.unwrap(), ["note 0"]);
    add(&notes, "another").await.unwrap();
    drop(notes);
    assert_eq!(read(&path).await.unwrap(), ["note 0", "another"]);
}

#[tokio::test]
async fn cut_or_changed_log_is_detected() {
    let (folder, path) = place();
    let whole = crashed(&path).await;
    let log = &whole["notes.db-wal"];
    let mut refused = 0;
    for at in (0..log.len()).step_by(211).chain(0..32) {
        let mut changed = log.clone();
        changed[at] ^= 1 << (at % 8);
        for log in [log[..at].to_vec(), changed] {
            let mut files = whole.clone();
            files.insert("notes.db-wal".into(), log);
            put(folder.path(), &files);
            refused += usize::from(!is_there(&path, read(&path).await, &files));
        }
    }
    assert!(refused * 10 > log.len() / 211 * 2 * 9, "{refused} were refused");
}

#[tokio::test]
async fn missing_empty_or_older_database_is_detected() {
    let (folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    drop(notes);
    let older = fs::read(&path).unwrap();
    let notes = open(&path).await.unwrap();
    add(&notes, "two").await.unwrap();
    drop(notes);
    let whole = files(folder.path());
    assert_eq!(whole.len(), 2);
    for database in [None, Some(Vec::new()), Some(older)] {
        let mut files = whole.clone();
        files.remove("notes.db");
        files.extend(database.map(|bytes| ("notes.db".into(), bytes)));
        put(folder.path(), &files);
        let error = open(&path).await.unwrap_err();
        assert!(matches!(error, SqliteError::Lost { expected: 2, .. }), "{error:?}");
        assert!(!is_there(&path, Err(error), &files));
    }
    // A log without a database is an error even without a witness.
    put(folder.path(), &BTreeMap::new());
    let mut log = crashed(&path).await;
    log.retain(|name, _| name == "notes.db-wal");
    put(folder.path(), &log);
    let error = open(&path).await.unwrap_err();
    assert!(error.to_string().contains("it is missing, but its log is not"), "{error}");
}

/// An outdated or missing witness file must not be an error. A process or machine may stop after a commit and before
/// the commit is counted in the witness file.
#[tokio::test]
async fn outdated_or_missing_witness_is_not_an_error() {
    let (folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    let behind = fs::read(folder.path().join("notes.db-witness")).unwrap();
    for _ in 1..NOTES_COUNT {
        add(&notes, "more").await.unwrap();
    }
    drop(notes);
    let mut whole = files(folder.path());
    whole.insert("notes.db-witness".into(), behind);
    put(folder.path(), &whole);
    assert!(is_there(&path, read(&path).await, &whole));
    whole.remove("notes.db-witness");
    put(folder.path(), &whole);
    assert!(is_there(&path, read(&path).await, &whole));
    // The next write creates the witness again.
    add(&open(&path).await.unwrap(), "one more").await.unwrap();
    assert_eq!(fs::read(folder.path().join("notes.db-witness")).unwrap().len(), 512);
}

#[tokio::test]
async fn damaged_witness_is_an_error() {
    let (folder, path) = place();
    let whole = crashed(&path).await;
    let witness = &whole["notes.db-witness"];
    for at in 0..witness.len() {
        let mut changed = witness.clone();
        changed[at] ^= 1 << (at % 8);
        for bytes in [witness[..at].to_vec(), changed, [witness, &b"x"[..]].concat()] {
            fs::write(folder.path().join("notes.db-witness"), &bytes).unwrap();
            let error = open(&path).await.unwrap_err();
            assert!(matches!(error, SqliteError::Corrupt { .. }), "{error:?}");
            assert!(error.to_string().contains("notes.db-witness is damaged"), "{error}");
        }
    }
    accept_older(&path).unwrap();
    assert_eq!(read(&path).await.unwrap().len(), NOTES_COUNT);
}

#[tokio::test]
async fn loss_is_detected_while_the_database_is_open() {
    let (folder, path) = place();
    let whole = crashed(&path).await;
    put(folder.path(), &whole);
    let notes = open(&path).await.unwrap();
    // The witness contains a commit of another process that the database does not have.
    let ahead = {
        let (folder, path) = place();
        let notes = open(&path).await.unwrap();
        for _ in 0..=NOTES_COUNT {
            add(&notes, "ahead").await.unwrap();
        }
        fs::read(folder.path().join("notes.db-witness")).unwrap()
    };
    fs::write(folder.path().join("notes.db-witness"), ahead).unwrap();
    let error = all(&notes).await.unwrap_err();
    assert!(matches!(error, SqliteError::Lost { found: 12, expected: 13, .. }), "{error:?}");
    let error = add(&notes, "lost").await.unwrap_err();
    assert!(matches!(error, SqliteError::Lost { .. }), "{error:?}");
    let error = notes.backup(folder.path().join("copy.db")).await.unwrap_err();
    assert!(matches!(error, SqliteError::Lost { .. }), "{error:?}");
}

/// A power failure may undo a commit without a sync, so the witness file must not count that commit.
#[tokio::test]
async fn commits_without_a_sync_are_not_counted_by_the_witness() {
    let (folder, path) = place();
    let options = SqliteOptions::new().synchronous(Synchronous::Normal);
    let notes = Database::open_witnessed(&path, NOTES, options).await.unwrap();
    add(&notes, "one").await.unwrap();
    assert!(!folder.path().join("notes.db-witness").exists());
    // The sync of a later commit also syncs the earlier ones.
    let full = open(&path).await.unwrap();
    add(&full, "two").await.unwrap();
    let witness = fs::read_to_string(folder.path().join("notes.db-witness")).unwrap();
    assert!(witness.contains("commit 00000000000000000002, "), "{witness}");
}

#[tokio::test]
async fn sync_of_a_deleted_witness_is_an_error() {
    let (folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    notes.sync_witness().await.unwrap();
    fs::remove_file(folder.path().join("notes.db-witness")).unwrap();
    let error = notes.sync_witness().await.unwrap_err();
    assert!(matches!(error, SqliteError::Io { .. }), "{error:?}");
    // The next commit creates a new witness.
    add(&notes, "two").await.unwrap();
    notes.sync_witness().await.unwrap();
    let other = Database::open(":memory:", NOTES, patient()).await.unwrap();
    other.sync_witness().await.unwrap();
}

#[tokio::test]
async fn database_without_a_witness_is_counted_from_its_first_write() {
    let (folder, path) = place();
    let notes = Database::open(&path, NOTES, patient()).await.unwrap();
    add(&notes, "one").await.unwrap();
    drop(notes);
    assert_eq!(read(&path).await.unwrap(), ["one"]);
    assert_eq!(files(folder.path()).len(), 1);
    add(&open(&path).await.unwrap(), "two").await.unwrap();
    // A program that uses no witness reads and writes the same database.
    add(&Database::open(&path, NOTES, patient()).await.unwrap(), "three").await.unwrap();
    assert_eq!(read(&path).await.unwrap(), ["one", "two", "three"]);
}

#[tokio::test]
async fn transaction_without_changes_writes_nothing() {
    let (folder, path) = place();
    let notes = open(&path).await.unwrap();
    add(&notes, "one").await.unwrap();
    let written = || {
        let mut files = files(folder.path());
        // The file contains the locks, which change.
        files.remove("notes.db-shm");
        files
    };
    let before = written();
    notes.write::<_, SqliteError>(|_| Ok(())).await.unwrap();
    assert!(written() == before);
}

/// Readers and writers on several connections must never mistake a commit in progress for a lost one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_witnessed_writes_and_reads_lose_nothing() {
    let (_folder, path) = place();
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let notes = open(&path).await.unwrap();
        let reader = notes.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..40 {
                add(&notes, "note").await.unwrap();
            }
        }));
        tasks.push(tokio::spawn(async move {
            for _ in 0..200 {
                all(&reader).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(read(&path).await.unwrap().len(), 120);
    let witness = fs::read_to_string(path.with_extension("db-witness")).unwrap();
    assert!(witness.contains("commit 00000000000000000120, "), "{witness}");
}

/// The witness file must have the permissions of the database, so that every user who may write to the database can
/// also count commits. Regression test.
#[cfg(unix)]
#[tokio::test]
async fn witness_has_the_permissions_of_its_database() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = place();
    drop(open(&path).await.unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
    add(&open(&path).await.unwrap(), "one").await.unwrap();
    let witness = fs::metadata(folder.path().join("notes.db-witness")).unwrap();
    assert_eq!(witness.permissions().mode() & 0o777, 0o664);
}
