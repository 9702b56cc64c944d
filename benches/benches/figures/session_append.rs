//! Measures the append of a turn to a stored session of 10 and of 10,000 messages.
//!
//! Each storage is compared with a floor, which is minimal code for the same work. The floor inserts the same bytes
//! into the same database, or appends them to a file.

use std::cell::RefCell;
use std::time::Duration;

use neuron_benches::comparison::{Comparison, Options};
use neuron_benches::journal::floor::Floor;
use neuron_benches::session::{Growing, LENGTHS, postgres, sqlite, turn};
use neuron_runtime::FileSessionStorage;
use neuron_testkit::postgres::PostgresServer;
use neuron_types::VersionedSessionStorage;
use tokio::runtime::Runtime;

use crate::Failure;

const ROUNDS: usize = 201;

pub(crate) fn run() -> Result<(), Failure> {
    let options = Options::from_args(ROUNDS);
    let rounds = options.rounds();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("| storage, messages | bare inserts | append | append / bare |");
    println!("|---|---:|---:|---:|");
    for length in LENGTHS {
        let name = format!("file, {length}");
        if !options.includes(&name) {
            continue;
        }
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let storage = FileSessionStorage::new(folder.path().join("sessions"));
        let session = runtime.block_on(Growing::new(storage, length, rounds))?;
        let floor = RefCell::new(Floor::new(folder.path())?);
        let record = serde_json::to_vec(&turn())?;
        let append = || floor.borrow_mut().append(&record).expect("it is appended");
        compare(&name, &runtime, rounds, session, append);
    }
    for length in LENGTHS {
        let name = format!("sqlite, {length}");
        if !options.includes(&name) {
            continue;
        }
        // The folder must be on the disk. The system's temporary folder may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let storage = runtime.block_on(sqlite::storage(folder.path()))?;
        let session = runtime.block_on(Growing::new(storage, length, rounds))?;
        let floor = RefCell::new(sqlite::Floor::new(folder.path(), length)?);
        let insert = || floor.borrow_mut().insert().expect("it is inserted");
        compare(&name, &runtime, rounds, session, insert);
    }
    for length in LENGTHS {
        let name = format!("postgres, {length}");
        if !options.includes(&name) {
            continue;
        }
        // `or_skip` prints a message if PostgreSQL is not available.
        let Some(server) = PostgresServer::or_skip() else {
            break;
        };
        let storage = runtime.block_on(postgres::storage(&server, length))?;
        let session = runtime.block_on(Growing::new(storage, length, rounds))?;
        let floor = RefCell::new(runtime.block_on(postgres::Floor::new(&server, length))?);
        let insert = || runtime.block_on(floor.borrow_mut().insert()).expect("it is inserted");
        compare(&name, &runtime, rounds, session, insert);
    }
    Ok(())
}

/// Measures a storage and its floor (a plain insert) `rounds` times, and prints the result as a line of the table.
fn compare<S: VersionedSessionStorage>(
    name: &str,
    runtime: &Runtime,
    rounds: usize,
    session: Growing<S>,
    insert: impl Fn() -> Duration,
) {
    let session = RefCell::new(session);
    let append = || runtime.block_on(session.borrow_mut().append()).expect("it is stored");
    let compared = Comparison::of_times(rounds, append, insert);
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "| {name} | {:.0} µs | {:.0} µs | {:.2} |",
        micros(compared.floor),
        micros(compared.library),
        compared.ratio
    );
}
