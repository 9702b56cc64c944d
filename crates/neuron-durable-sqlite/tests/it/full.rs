//! A test with a full disk. The run must end with an error that names the cause, and must resume when there is room.

use std::process::Command;

use neuron_durable_sqlite::{JournalError, RunStatus, SqliteRuns};
use neuron_types::{DurableError, LoopError};

use crate::support::{Work, place};

const TEST: &str = "full::run_on_a_full_disk_fails_and_resumes_with_room";
const PLACE: &str = "NEURON_JOURNAL_WITHOUT_ROOM";
const TURNS: usize = 60;

/// The run is driven in a child process with a small file size limit (`ulimit -f`). The child ignores the signal
/// SIGXFSZ, so writes beyond the limit return errors.
#[tokio::test]
async fn run_on_a_full_disk_fails_and_resumes_with_room() {
    if let Ok(path) = std::env::var(PLACE) {
        return without_room(path).await;
    }
    let (_folder, path) = place();
    // Created in advance, so that opening the database needs no room.
    drop(SqliteRuns::open(&path).await.unwrap());
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    // 600 blocks of 512 bytes, which are 300 KB. The run needs 500 KB.
    let script = r#"trap "" XFSZ; ulimit -f 600; exec "$0" "$@""#;
    command.args(["-c", script]).arg(program).args([TEST, "--exact", "--nocapture"]);
    let output = command.env(PLACE, &path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    let done: Vec<usize> = said
        .lines()
        .find_map(|line| line.strip_prefix("done "))
        .expect("what it did")
        .split(' ')
        .map(|number| number.parse().unwrap())
        .collect();
    println!("without room it did {done:?}");
    assert!((2..TURNS).contains(&done[0]), "{done:?}");

    let runs = SqliteRuns::open(&path).await.unwrap();
    // The outcome itself may not have been stored, because there was no room.
    let status = runs.inspect("long").await.unwrap().summary.status;
    assert!(matches!(status, RunStatus::Running | RunStatus::Stalled), "{status:?}");
    let work = Work::new(TURNS, 4096);
    let messages = work.run(&runs, "long").await.unwrap().messages;
    assert_eq!(messages.len(), TURNS * 2 + 2);
    let (model, tool) = work.done();
    // A model call whose response could not be written is made again. The tool call is not.
    assert!(done[0] + model <= TURNS + 2, "{done:?} and {model}");
    assert_eq!(done[1] + tool, TURNS, "{done:?} and {tool}");
}

async fn without_room(path: String) {
    let runs = SqliteRuns::open(path).await.unwrap();
    let work = Work::new(TURNS, 4096);
    let error = work.run(&runs, "long").await.unwrap_err();
    let LoopError::Durable(DurableError::Other(error)) = error else { panic!("{error:?}") };
    let error = error.downcast::<JournalError>().unwrap();
    assert!(matches!(*error, JournalError::Database(_)), "{error:?}");
    println!("it said: {error}");
    // Other runs get the same error, and nothing hangs.
    runs.signal("long", "any", "x".repeat(1_000_000)).await.unwrap_err();
    let (model, tool) = work.done();
    println!("done {model} {tool}");
}
