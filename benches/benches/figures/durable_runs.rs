//! Measures the steps per second of many concurrent durable runs, compared with threads that each sync a file.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use futures_util::future::try_join_all;
use neuron_benches::comparison::{Options, median};
use neuron_benches::journal::Parrot;
use neuron_durable_sqlite::SqliteRuns;
use neuron_types::{ActivityOptions, CompletionRequest, DurableContext as _, Message};

use crate::Failure;

const ROUNDS: usize = 5;
/// The measured numbers of concurrent runs.
const RUNS: [usize; 3] = [1, 32, 1000];
/// Number of threads of the floor, the plain code for comparison. Each thread syncs its own file.
const THREADS: usize = 32;
/// Number of steps in a round. The floor (plain code for comparison) makes as many syncs.
const STEPS: usize = 10_000;
/// Length of a response, in bytes of text.
const LENGTH: usize = 1 << 10;

pub(crate) fn run() -> Result<(), Failure> {
    let options = Options::from_args(ROUNDS);
    let steps = if options.is_test() { 2_000 } else { STEPS };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("| runs | syncs a second, {THREADS} threads | steps a second | steps / syncs |");
    println!("|---:|---:|---:|---:|");
    for runs in RUNS {
        if !options.includes(&format!("{runs} runs")) {
            continue;
        }
        // A single run waits for a sync in each step, so it gets fewer steps.
        let steps = if runs == 1 { steps / 10 } else { steps };
        let mut rounds = Vec::new();
        for _ in 0..options.rounds() {
            // The folder must be on the disk. The system's temporary folder may be in memory.
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
            let floor = syncs_a_second(folder.path(), steps)?;
            let library = runtime.block_on(steps_a_second(folder.path(), runs, steps))?;
            rounds.push((floor, library, library / floor));
        }
        let of =
            |part: fn(&(f64, f64, f64)) -> f64| median(rounds.iter().map(part), f64::total_cmp);
        let (floor, library, ratio) = (of(|it| it.0), of(|it| it.1), of(|it| it.2));
        println!("| {runs} | {floor:.0} | {library:.0} | {ratio:.2} |");
    }
    Ok(())
}

/// Measures how many syncs per second the disk can do. Each of [`THREADS`] threads repeatedly appends an entry to its
/// own file and syncs the file, until `syncs` syncs are done in total.
fn syncs_a_second(folder: &Path, syncs: usize) -> Result<f64, Failure> {
    let record = Parrot::new(LENGTH).record()?;
    let start = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (path, record) = (folder.join(format!("floor-{number}")), &record);
                scope.spawn(move || {
                    let mut file = File::create(path)?;
                    (0..syncs / THREADS).try_for_each(|_| {
                        file.write_all(record)?;
                        file.sync_data()
                    })
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(syncs as f64 / start.elapsed().as_secs_f64())
}

/// Opens `count` runs, and executes `steps` steps in total, distributed equally over the concurrent runs. Returns the
/// steps per second.
async fn steps_a_second(folder: &Path, count: usize, steps: usize) -> Result<f64, Failure> {
    let runs = SqliteRuns::open(folder.join("runs.db")).await?;
    let parrot = Arc::new(Parrot::new(LENGTH));
    let open = async |number| {
        let name = format!("run-{number}");
        runs.run(&name).open(parrot.clone(), Arc::default()).await
    };
    let opened = try_join_all((0..count).map(open)).await?;
    let messages = vec![Message::user("go")];
    let request = CompletionRequest { messages, ..Default::default() };
    let start = Instant::now();
    let each = opened.iter().map(async |run| {
        for _ in 0..steps / count {
            run.execute_llm_call_ref(request.view(), ActivityOptions::default()).await?;
        }
        Ok::<_, Failure>(())
    });
    try_join_all(each).await?;
    Ok(steps as f64 / start.elapsed().as_secs_f64())
}
