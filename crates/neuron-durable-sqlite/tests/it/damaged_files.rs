//! Randomly changes, truncates and removes files of a journal. Opening the journal must then return an error or the
//! newest state.

use std::fs;
use std::path::Path;
use std::time::Duration;

use neuron_conformance::case::Case;
use neuron_conformance::damaged_files::Files;
use neuron_conformance::random::{Random, from_env};
use neuron_durable_sqlite::{JournalError, RunDetails, RunStatus, SqliteError, SqliteRuns};
use neuron_types::{DurableContext as _, Message};

use crate::support::Work;

const TRIALS: u64 = 500;

/// The expected states of the runs, and the messages of the run with the id `begun` after its end.
struct Expected {
    runs: Vec<RunDetails>,
    messages: Vec<Message>,
}

/// Counters over all trials. `exact` counts the runs whose state was read exactly, and `refused` counts the runs whose
/// reading failed.
#[derive(Debug, Default)]
struct Tally {
    exact: usize,
    refused: usize,
    /// Number of runs that continued to their end.
    went_on: usize,
    /// Number of received signals.
    signals: usize,
}

const RUNS: [&str; 3] = ["ended", "begun", "signalled"];

fn work() -> Work {
    Work::new(4, 700)
}

/// Number of model calls and of tool calls that the interrupted run with the id `begun` still has to make.
const LEFT: (usize, usize) = (3, 2);

/// Writes a journal with the runs [`RUNS`]. Returns the journal's files as a killed process would leave them, and the
/// details of the runs.
async fn write(case: &Case, folder: &Path) -> (Files, Vec<RunDetails>) {
    let path = folder.join("runs.db");
    let runs = SqliteRuns::open(&path).await.unwrap();
    work().run(&runs, "ended").await.unwrap();
    // Part of the data is in the database file now, and the rest is in the log.
    drop(runs);
    let runs = SqliteRuns::open(&path).await.unwrap();
    work().hanging_at(2).run_until_it_hangs(&runs, "begun").await;
    drop(work().open(&runs, "signalled").await.unwrap());
    runs.signal("signalled", "go", "early").await.unwrap();
    let mut details = Vec::new();
    for id in RUNS {
        let run = runs.inspect(id).await.unwrap();
        details.push(run);
    }
    assert!(details.iter().all(|run| !run.is_held));
    (Files::read(case, folder), details)
}

/// Checks that each read of a damaged journal returns an error or the newest state. Counts both results in `tally`.
async fn check(case: &Case, folder: &Path, expected: &Expected, tally: &mut Tally) {
    let runs = match SqliteRuns::open(folder.join("runs.db")).await {
        Ok(runs) => runs,
        Err(error) => {
            case.holds(matches!(error, JournalError::Database(_)), &error);
            tally.refused += RUNS.len();
            return;
        }
    };
    for run in &expected.runs {
        let id = &run.summary.id;
        match runs.inspect(id).await {
            Ok(details) => {
                case.equal("the state of a run", &details, run);
                tally.exact += 1;
            }
            Err(JournalError::NotFound { .. }) => case.fail(format_args!("{id} is missing")),
            Err(_) => tally.refused += 1,
        }
    }
    if let Ok(list) = runs.list().await {
        case.equal("the number of runs", list.len(), RUNS.len());
        for run in list {
            let is_right = run.status == RunStatus::Damaged
                || expected.runs.iter().any(|expected| expected.summary == run);
            case.holds(is_right, format_args!("{run:?} is listed"));
        }
    }
    if let Ok(context) = work().open(&runs, "signalled").await
        && let Ok(received) = context.wait_for_signal::<String>("go", Duration::ZERO).await
    {
        case.equal("the signal", received.as_deref(), Some("early"));
        tally.signals += 1;
    }
    let again = work();
    match again.run(&runs, "begun").await {
        Ok(result) => {
            case.holds(result.messages == expected.messages, "it went on with other messages");
            case.equal("the calls that were left", again.done(), LEFT);
            tally.went_on += 1;
        }
        Err(_) => {
            let (model, tool) = again.done();
            case.holds(model <= LEFT.0 && tool <= LEFT.1, "more was done than was left");
        }
    }
}

#[tokio::test]
async fn damage_of_any_file_is_an_error_or_has_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Case::new("journal", "damage", "setup");
    let (killed, runs) = write(&setup, folder.path()).await;
    let whole = SqliteRuns::open(":memory:").await.unwrap();
    let messages = work().run(&whole, "begun").await.unwrap().messages;
    let expected = Expected { runs, messages };

    let place = folder.path().join("trial");
    killed.put(&setup, &place);
    drop(SqliteRuns::open(place.join("runs.db")).await.unwrap());
    let closed = Files::read(&setup, &place);
    // The database, its log, the index of the log, the witness, and the locks.
    assert!(killed.len() >= 5 && closed.len() < killed.len(), "{} files", killed.len());

    let mut tally = Tally::default();
    for whole in [&killed, &closed] {
        whole.put(&setup, &place);
        check(&setup, &place, &expected, &mut tally).await;
    }
    assert_eq!((tally.exact, tally.refused), (2 * RUNS.len(), 0));
    assert_eq!((tally.went_on, tally.signals), (2, 2));

    let first = from_env("DAMAGE_SEED").unwrap_or(0);
    let trials = from_env("DAMAGE_SEED").map_or(TRIALS, |_| 1);
    for seed in first..first + trials {
        let mut random = Random::new(seed);
        let whole = if random.below(2) == 0 { &killed } else { &closed };
        let (damaged, damage) = whole.damaged(&setup, &mut random);
        let case = Case::new("journal", "damage", format_args!("DAMAGE_SEED={seed}, {damage}"));
        damaged.put(&case, &place);
        check(&case, &place, &expected, &mut tally).await;
    }
    println!("{tally:?}");
    assert!(
        trials == 1 || tally.exact.min(tally.refused).min(tally.went_on).min(tally.signals) > 100,
        "{tally:?}"
    );
}

#[tokio::test]
async fn missing_log_or_database_is_reported_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Case::new("journal", "damage", "setup");
    let (killed, _) = write(&setup, folder.path()).await;
    let place = folder.path().join("trial");
    for (file, is_closed) in [("runs.db", true), ("runs.db-wal", false)] {
        killed.put(&setup, &place);
        if is_closed {
            drop(SqliteRuns::open(place.join("runs.db")).await.unwrap());
        }
        fs::remove_file(place.join(file)).unwrap();
        let error = SqliteRuns::open(place.join("runs.db")).await.unwrap_err();
        let is_lost = matches!(error, JournalError::Database(SqliteError::Lost { .. }));
        assert!(is_lost, "{file}: {error:?}");
    }
}
