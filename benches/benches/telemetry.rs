//! One turn of the loop with `OtelHook`, beside the same turn without: what telemetry costs that nobody reads, and
//! what it costs until it is exported.

use neuron_benches::comparison::{Options, median};
use neuron_benches::telemetry::Listening;

const ROUNDS: usize = 51;

/// In one run.
const TURNS: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_args(ROUNDS);
    let mut medians = [const { Vec::new() }; Listening::ALL.len()];
    let mut allocations = [0; Listening::ALL.len()];
    for _ in 0..options.rounds() {
        // In turns, so that whatever else the machine does meets all.
        for (index, listening) in Listening::ALL.into_iter().enumerate() {
            let costs = listening.run(TURNS)?;
            medians[index].push(median(costs.iter().map(|cost| cost.time), Ord::cmp));
            allocations[index] = median(costs.iter().map(|cost| cost.allocations), Ord::cmp);
        }
    }
    println!("| | a turn | more than without | / without | allocations |");
    println!("|---|---:|---:|---:|---:|");
    let micros =
        |index: usize| median(medians[index].iter().copied(), Ord::cmp).as_secs_f64() * 1e6;
    let floor = micros(0);
    for (index, listening) in Listening::ALL.into_iter().enumerate() {
        let time = micros(index);
        println!(
            "| {} | {time:.2} µs | {:.2} µs | {:.2} | {} |",
            listening.name(),
            time - floor,
            time / floor,
            allocations[index],
        );
    }
    Ok(())
}
