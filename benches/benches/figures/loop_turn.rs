//! Measures a turn of the agent loop after 10, 100 and 1,000 turns of history, compared with a hand-written loop.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use neuron_benches::floor::run_by_hand;
use neuron_benches::turn::{Cost, Unlimited, run_agent};
use neuron_context::SlidingWindowStrategy;

use crate::Failure;

/// Number of measured turns, which follow the turns of the history.
const MEASURED: usize = 20;

const HISTORIES: [usize; 3] = [10, 100, 1000];

/// A function that runs a number of turns and returns the cost of each.
type Run = fn(usize) -> Vec<Cost>;

/// Measures the median time of a turn after `history` earlier turns. Repeats this `iterations` times and returns the
/// sum, which Criterion divides by `iterations`. `run` runs a number of turns and returns their costs.
fn measure(iterations: u64, history: usize, run: impl Fn(usize) -> Vec<Cost>) -> Duration {
    (0..iterations)
        .map(|_| {
            let costs = run(history + MEASURED);
            let mut times: Vec<_> = costs.iter().skip(history).map(|cost| cost.time).collect();
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        })
        .sum()
}

fn agent(turns: usize) -> Vec<Cost> {
    run_agent(turns, Unlimited).expect("the run succeeds")
}

fn agent_with_window(turns: usize) -> Vec<Cost> {
    run_agent(turns, SlidingWindowStrategy::new(20, usize::MAX)).expect("the run succeeds")
}

// Criterion reads the arguments too. Its filter is a regular expression for names such as `loop_turn/agent/10`.
pub(crate) fn run() -> Result<(), Failure> {
    let criterion = Criterion::default().sample_size(30).measurement_time(Duration::from_secs(2));
    let mut criterion = criterion.configure_from_args();
    let mut group = criterion.benchmark_group("loop_turn");
    for history in HISTORIES {
        let forms: [(&str, Run); 3] = [
            ("by hand", run_by_hand),
            ("agent", agent),
            ("agent, sliding window's estimate", agent_with_window),
        ];
        for (name, run) in forms {
            group.bench_function(BenchmarkId::new(name, history), |bencher| {
                bencher.iter_custom(|iterations| measure(iterations, history, run));
            });
        }
    }
    group.finish();
    report_allocations();
    criterion.final_summary();
    Ok(())
}

fn report_allocations() {
    println!("allocations a turn, after 10 / 100 / 1000 turns");
    for (name, run) in [("by hand", run_by_hand as Run), ("agent", agent)] {
        let counts = HISTORIES.map(|history| {
            let costs = run(history + MEASURED);
            costs.get(history + MEASURED / 2).map_or(0, |cost| cost.allocations)
        });
        println!("  {name}: {counts:?}");
    }
}
