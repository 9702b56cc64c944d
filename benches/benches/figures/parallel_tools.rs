//! Measures a turn of the agent loop with 1 and with 16 concurrent tools, compared with a hand-written join of the same
//! futures.

use std::time::Duration;

use neuron_benches::comparison::{Comparison, Options, median};
use neuron_benches::parallel::{TOOLS, run_agent, run_by_hand};
use neuron_benches::turn::Cost;

use crate::Failure;

const ROUNDS: usize = 51;

/// Number of turns in a round. A round is one measured repetition.
const TURNS: usize = 200;

pub(crate) fn run() -> Result<(), Failure> {
    let options = Options::from_args(ROUNDS);
    println!("| tools | by hand | agent | agent / by hand | allocations by hand | agent |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for tools in TOOLS {
        if !options.includes(&tools.to_string()) {
            continue;
        }
        let agent = || run_agent(TURNS, tools).expect("the run succeeds").0;
        let by_hand = || run_by_hand(TURNS, tools).expect("the run succeeds").0;
        let time = |costs: Vec<Cost>| -> Duration {
            median(costs.iter().map(|cost| cost.time), Duration::cmp)
        };
        let allocations =
            |costs: Vec<Cost>| median(costs.iter().map(|cost| cost.allocations), usize::cmp);
        let compared = Comparison::of_times(options.rounds(), || time(agent()), || time(by_hand()));
        println!(
            "| {tools} | {:.2} µs | {:.2} µs | {:.1} | {} | {} |",
            compared.floor.as_secs_f64() * 1e6,
            compared.library.as_secs_f64() * 1e6,
            compared.ratio,
            allocations(by_hand()),
            allocations(agent()),
        );
    }
    Ok(())
}
