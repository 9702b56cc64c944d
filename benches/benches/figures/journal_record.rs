//! Measures a step of a run with the SQLite journal. For comparison, appends the same bytes to a file and calls
//! `fdatasync`.

use std::cell::RefCell;
use std::time::Duration;

use neuron_benches::comparison::{Comparison, Options};
use neuron_benches::journal::floor::Floor;
use neuron_benches::journal::{LENGTHS, Parrot, Steps};

use crate::Failure;

/// Number of rounds. During these rounds the write-ahead log restarts several times, as in a real database.
const ROUNDS: usize = 1001;

pub(crate) fn run() -> Result<(), Failure> {
    let options = Options::from_args(ROUNDS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("| answer | append and fdatasync | step | step / bare |");
    println!("|---|---:|---:|---:|");
    for length in LENGTHS {
        let name = format!("{} KiB", length >> 10);
        if !options.includes(&name) {
            continue;
        }
        // The folder must be on the disk. The system's temporary folder may be in memory.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let parrot = Parrot::new(length);
        let record = parrot.record()?;
        let floor = RefCell::new(Floor::new(folder.path())?);
        let steps = runtime.block_on(Steps::new(folder.path(), parrot))?;
        let step = || runtime.block_on(steps.step()).expect("it is journaled");
        let append = || floor.borrow_mut().append(&record).expect("it is written");
        let compared = Comparison::of_times(options.rounds(), step, append);
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        println!(
            "| {name} | {:.0} µs | {:.0} µs | {:.2} |",
            micros(compared.floor),
            micros(compared.library),
            compared.ratio
        );
    }
    Ok(())
}
