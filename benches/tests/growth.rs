//! Checks that a turn costs the same early and late in a run, in each way to run an agent, with each strategy and with
//! telemetry. The test counts allocations and not time, so the result is the same on every machine.
//!
//! `sessions.rs` has the storages, and `replays.rs` has durable runs.

use neuron_benches::telemetry::Listening;
use neuron_benches::turn::{Cost, Unlimited, Way, run_way};
use neuron_context::{SlidingWindowStrategy, ToolResultClearingStrategy};
use neuron_otel::OtelHook;
use neuron_types::ContextStrategy;

/// A turn after 4,000 turns may cost this many times as much as one after 100.
const GROWS_AT_MOST: f64 = 1.3;

const TURNS: usize = 4_020;

/// Returns the median of 20 turns, which is the same between two growths of a vector.
fn allocations(costs: &[Cost], after: usize) -> usize {
    let mut counts: Vec<_> = costs[after..after + 20].iter().map(|cost| cost.allocations).collect();
    counts.sort_unstable();
    counts[counts.len() / 2]
}

fn run(way: Way, strategy: impl ContextStrategy) -> Vec<Cost> {
    run_way(way, TURNS, strategy, false, None::<OtelHook>).unwrap()
}

// There is only one test, because the counter is for the whole process.
#[test]
fn a_turn_costs_the_same_early_and_late() {
    const FAR: usize = 1_000_000_000;
    let clearing = || ToolResultClearingStrategy::new(2, FAR);
    for (name, costs) in [
        ("plain", run(Way::Whole, Unlimited)),
        ("streamed", run(Way::Streamed, Unlimited)),
        ("stepped", run(Way::Stepped, Unlimited)),
        ("sliding window", run(Way::Whole, SlidingWindowStrategy::new(10, FAR))),
        ("clearing", run(Way::Whole, clearing())),
        ("clearing with a minimum", run(Way::Whole, clearing().with_at_least(1_000))),
        ("clearing, streamed", run(Way::Streamed, clearing())),
        ("telemetry", Listening::NoOpExporterMetrics.run(TURNS).unwrap()),
        ("telemetry with content", Listening::Content.run(TURNS).unwrap()),
    ] {
        let (early, late) = (allocations(&costs, 100), allocations(&costs, 4_000));
        println!("{name}: {early} allocations after 100 turns, {late} after 4,000");
        assert!(late as f64 <= GROWS_AT_MOST * early as f64, "{name}: {early} and {late}");
    }
}
