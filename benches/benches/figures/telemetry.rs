//! Measures a turn of the agent loop with `OtelHook`, compared with a turn without a hook. Each variant of
//! [`Listening`] is a case.

use neuron_benches::comparison::{Options, median};
use neuron_benches::telemetry::Listening;

use crate::Failure;

const ROUNDS: usize = 51;

/// Number of turns in a run.
const TURNS: usize = 200;

pub(crate) fn run() -> Result<(), Failure> {
    let options = Options::from_args(ROUNDS);
    println!("| | a turn | more than without | / without | allocations |");
    println!("|---|---:|---:|---:|---:|");
    // The first two cases must run before a subscriber is set. After that, tracing remembers for the whole process that
    // there was a subscriber.
    let unheard = [Listening::NoHook, Listening::Nobody];
    for row in compare(options.rounds(), &unheard)? {
        println!("{row}");
    }
    let heard: Vec<Listening> =
        Listening::ALL.into_iter().filter(|listening| *listening != Listening::Nobody).collect();
    for row in compare(options.rounds(), &heard)?.iter().skip(1) {
        println!("{row}");
    }
    Ok(())
}

/// Measures the cases, and returns a table row for each case. The other cases are compared with the first case.
///
/// Each round runs every case once, so that other load on the machine affects all cases in the same way.
fn compare(rounds: usize, cases: &[Listening]) -> Result<Vec<String>, Failure> {
    let mut times = vec![Vec::new(); cases.len()];
    let mut allocations = vec![0; cases.len()];
    for _ in 0..rounds {
        for (index, listening) in cases.iter().enumerate() {
            let costs = listening.run(TURNS)?;
            times[index].push(median(costs.iter().map(|cost| cost.time), Ord::cmp));
            allocations[index] = median(costs.iter().map(|cost| cost.allocations), Ord::cmp);
        }
    }
    let micros = |index: usize| median(times[index].iter().copied(), Ord::cmp).as_secs_f64() * 1e6;
    let floor = micros(0);
    let row = |index: usize| {
        let time = micros(index);
        format!(
            "| {} | {time:.2} µs | {:.2} µs | {:.2} | {} |",
            cases[index].name(),
            time - floor,
            time / floor,
            allocations[index],
        )
    };
    Ok((0..cases.len()).map(row).collect())
}
