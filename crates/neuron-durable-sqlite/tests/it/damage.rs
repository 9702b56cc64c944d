//! Tests with damaged journals. The run must never repeat an effect or accept a changed step, and must leave the file
//! unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use neuron_durable_sqlite::{JournalError, SqliteError, SqliteOptions, SqliteRuns, Synchronous};
use neuron_types::{LoopError, Message};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::{Work, place};

/// Number of model calls and tool calls that the run of [`begun`] still has to make.
const LEFT: (usize, usize) = (3, 2);

/// The files of a run that was dropped in its fourth of six model calls.
struct Begun {
    _folder: TempDir,
    path: PathBuf,
    work: Work,
    /// The bytes of the database file, after the write-ahead log was moved into it.
    database: Vec<u8>,
    /// The messages of an uninterrupted run.
    messages: Vec<Message>,
}

async fn begun() -> Begun {
    let (folder, path) = place();
    let work = Work::new(5, 1500);
    let runs = SqliteRuns::open(&path).await.unwrap();
    work.hanging_at(3).run_until_it_hangs(&runs, "begun").await;
    drop(runs);
    let database = fs::read(&path).unwrap();
    let whole = SqliteRuns::open(":memory:").await.unwrap();
    let messages = work.run(&whole, "begun").await.unwrap().messages;
    Begun { _folder: folder, path, work, database, messages }
}

/// The outcome of resuming a run.
#[derive(Debug)]
enum WentOn {
    /// The run ended with the same messages as an uninterrupted run.
    Well,
    /// Opening or driving the run returned this error.
    Refused(String),
}

impl Begun {
    /// Writes these bytes as the database file, and deletes the write-ahead log and the witness file.
    fn put(&self, bytes: &[u8]) {
        for ending in ["-wal", "-shm", "-witness"] {
            let _ = fs::remove_file(beside(&self.path, ending));
        }
        fs::write(&self.path, bytes).unwrap();
    }

    /// Resumes the run on the damaged file, and checks that no earlier call is repeated. `what` describes the damage in
    /// the message of a failed check.
    async fn go_on(&self, what: &str) -> WentOn {
        let before = fs::read(&self.path).unwrap();
        let work = self.work.again();
        let result = self.try_to_go_on(&work).await;
        let (model, tool) = work.done();
        match result {
            Ok(messages) => {
                assert!(messages == self.messages, "{what}: other messages");
                assert_eq!((model, tool), LEFT, "{what}: the calls that were left");
                WentOn::Well
            }
            Err(error) => {
                assert!(model <= LEFT.0 && tool <= LEFT.1, "{what}: {model}, {tool}: {error}");
                if (model, tool) == (0, 0) {
                    let after = fs::read(&self.path).unwrap();
                    assert!(after == before, "{what}: the file has changed: {error}");
                }
                WentOn::Refused(error)
            }
        }
    }

    async fn try_to_go_on(&self, work: &Work) -> Result<Vec<Message>, String> {
        let options = SqliteOptions::new().synchronous(Synchronous::Normal);
        let opened = SqliteRuns::open_with(&self.path, options).await;
        let runs = opened.map_err(|error| error.to_string())?;
        let run = work.run(&runs, "begun").await;
        run.map(|result| result.messages).map_err(|error: LoopError| error.to_string())
    }
}

#[tokio::test]
async fn run_of_an_undamaged_journal_resumes() {
    let begun = begun().await;
    begun.put(&begun.database);
    assert!(matches!(begun.go_on("whole").await, WentOn::Well));
}

#[tokio::test]
async fn truncated_journal_is_refused_at_any_length() {
    let begun = begun().await;
    let whole = &begun.database;
    let pages = (4096..whole.len()).step_by(4096);
    let around = pages.flat_map(|page| [page - 1, page, page + 1]);
    let odd = (1..whole.len()).step_by(997);
    for length in around.chain(odd).chain([1, 15, 16, 99, 100, whole.len() - 1]) {
        begun.put(&whole[..length]);
        match begun.go_on(&format!("{length} bytes")).await {
            WentOn::Refused(error) => assert!(error.contains("cut short"), "{length}: {error}"),
            WentOn::Well => panic!("{length} bytes of {} went on", whole.len()),
        }
    }
}

#[tokio::test]
async fn changed_byte_is_refused_or_has_no_effect() {
    let begun = begun().await;
    let whole = &begun.database;
    let rounds = std::env::var("DAMAGE_ROUNDS").ok().and_then(|text| text.parse().ok());
    let step = whole.len() / rounds.unwrap_or(150usize);
    // The header of the file and of each page, whose bytes matter most, and positions in the whole file.
    let headers = (0..whole.len()).step_by(4096).flat_map(|page| page..page + 24);
    let everywhere = (100..whole.len()).step_by(step.max(1)).map(|at| at + at % 97);
    let (mut well, mut refused) = (0, 0);
    for at in headers.chain(100..124).chain(everywhere).filter(|at| *at < whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        begun.put(&bytes);
        match begun.go_on(&format!("byte {at}")).await {
            WentOn::Well => well += 1,
            WentOn::Refused(_) => refused += 1,
        }
    }
    println!("{well} changes did not matter, {refused} were refused");
    assert!(refused > well / 4, "{well} and {refused}");
}

/// Changes one row of the journal with `sql` and asserts that resuming fails with an error that contains `words`.
async fn damaged(begun: &Begun, sql: &str, words: &str) {
    begun.put(&begun.database);
    let connection = Connection::open(&begun.path).unwrap();
    let changed = connection.execute_batch(sql).map(|()| connection.changes()).unwrap();
    assert_eq!(changed, 1, "{sql}");
    drop(connection);
    match begun.go_on(sql).await {
        WentOn::Refused(error) => assert!(error.contains(words), "{sql}: {error}"),
        WentOn::Well => panic!("{sql} went on"),
    }
}

#[tokio::test]
async fn changed_steps_are_refused() {
    let begun = begun().await;
    for (sql, words) in [
        (
            "UPDATE steps SET record = replace(record, 'a', 'b') WHERE position = 0",
            "step 0 is not as",
        ),
        ("UPDATE steps SET record = '{}' WHERE position = 3", "step 3 is not as written"),
        ("UPDATE steps SET digest = 'x' WHERE position = 2", "step 2 is not as written"),
        ("UPDATE steps SET effect = 'pure' WHERE position = 1", "step 1 is not as written"),
        ("DELETE FROM steps WHERE position = 0", "step 0 is missing"),
        ("DELETE FROM steps WHERE position = 4", "step 4 is missing"),
        ("UPDATE runs SET status = 'gone'", "its status is \"gone\""),
        ("UPDATE runs SET status = 'done'", "its row is not as written"),
        ("UPDATE runs SET execution = 1", "its row is not as written"),
    ] {
        damaged(&begun, sql, words).await;
    }
}

/// A run must not resume if the index of a table lacks the row of the run or of a step. The run would otherwise repeat
/// steps.
#[tokio::test]
async fn rows_missing_from_an_index_are_refused() {
    let begun = begun().await;
    for (index, left, words) in [
        ("sqlite_autoindex_runs_1", 0, "the index of runs does not have it"),
        ("sqlite_autoindex_steps_1", 5, "the index of steps does not have all steps"),
        ("sqlite_autoindex_steps_1", 0, "the index of steps does not have all steps"),
    ] {
        begun.put(&begun.database);
        let connection = Connection::open(&begun.path).unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        let root: usize = connection.query_row(sql, [index], |row| row.get(0)).unwrap();
        drop(connection);
        let mut bytes = begun.database.clone();
        // The number of entries in the header of the page.
        let count = (root - 1) * 4096 + 3;
        bytes[count..count + 2].copy_from_slice(&u16::to_be_bytes(left));
        begun.put(&bytes);
        match begun.go_on(index).await {
            WentOn::Refused(error) => assert!(error.contains(words), "{index}: {error}"),
            WentOn::Well => panic!("{index} with {left} entries went on"),
        }
    }
}

/// Regression test. After the write-ahead log is truncated or changed, opening must fail or return the latest state.
/// Earlier, a run could resume from an older state and repeat its effects.
#[tokio::test]
async fn damaged_log_is_refused_or_has_the_latest_state() {
    let (folder, path) = place();
    let work = Work::new(5, 1500);
    let runs = SqliteRuns::open(&path).await.unwrap();
    work.hanging_at(3).run_until_it_hangs(&runs, "begun").await;
    // The files as they are while the database is open.
    let files = ["", "-wal", "-witness"].map(|ending| beside(&path, ending));
    let [database, log, witness] = files.each_ref().map(|file| fs::read(file).unwrap());
    drop(runs);
    let messages = begun().await.messages;
    assert!(log.len() > 20 * FRAME, "{}", log.len());

    let cut = (0..log.len())
        .step_by(FRAME)
        .map(|length| log[..length + 32.min(log.len() - length)].to_vec());
    let odd = (0..log.len()).step_by(3301).map(|length| log[..length].to_vec());
    let changed = (0..log.len()).step_by(2711).map(|at| {
        let mut log = log.clone();
        log[at] ^= 1 << (at % 8);
        log
    });
    let (mut refused, mut went_on) = (0, 0);
    for log in cut.chain(odd).chain(changed).chain([log.clone()]) {
        for (file, content) in files.iter().zip([&database, &log, &witness]) {
            fs::write(file, content).unwrap();
        }
        let _ = fs::remove_file(beside(&path, "-shm"));
        let runs = match SqliteRuns::open(&path).await {
            Ok(runs) => runs,
            Err(JournalError::Database(SqliteError::Lost { .. })) => {
                refused += 1;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let work = work.again();
        assert!(work.run(&runs, "begun").await.unwrap().messages == messages);
        assert_eq!(work.done(), LEFT, "nothing is done again");
        went_on += 1;
    }
    assert!(refused > 40 && went_on > 0, "{refused} refused, {went_on} went on");
    drop(folder);
}

/// Size of a WAL frame in bytes. A frame is a page and its header of 24 bytes.
const FRAME: usize = 4096 + 24;

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut beside = path.to_owned().into_os_string();
    beside.push(ending);
    beside.into()
}
