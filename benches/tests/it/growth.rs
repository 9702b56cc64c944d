//! Checks that the number of allocations per turn does not grow during a run. The test covers each way to run an agent,
//! each context strategy, telemetry and the cache miss detector. It counts allocations instead of measuring time, so its result is the same on
//! every machine.
//!
//! The files `sessions.rs` and `replays.rs` have similar tests for storages and for durable runs.

use neuron_benches::telemetry::Listening;
use neuron_benches::turn::{Cost, Unlimited, Way, run_watched, run_way};
use neuron_context::{SlidingWindowStrategy, ToolResultClearingStrategy};
use neuron_otel::OtelHook;
use neuron_runtime::CacheMissDetector;
use neuron_types::ContextStrategy;

/// Maximum ratio of the allocations in a turn after 4,000 turns to the allocations in a turn after 100 turns.
const GROWS_AT_MOST: f64 = 1.3;

const TURNS: usize = 4_020;

/// Returns the median number of allocations of the 20 turns after the turn `after`. The few turns that also grow a
/// vector do not change the median.
fn allocations(costs: &[Cost], after: usize) -> usize {
    let mut counts: Vec<_> = costs[after..after + 20].iter().map(|cost| cost.allocations).collect();
    counts.sort_unstable();
    counts[counts.len() / 2]
}

fn run(way: Way, strategy: impl ContextStrategy) -> Vec<Cost> {
    run_way(way, TURNS, strategy, false, None::<OtelHook>).unwrap()
}

#[test]
fn turn_allocations_do_not_grow_during_a_run() {
    let _guard = crate::run_alone();
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
        ("cache misses", run_watched(TURNS, Unlimited, Some(CacheMissDetector::new())).unwrap()),
    ] {
        let (early, late) = (allocations(&costs, 100), allocations(&costs, 4_000));
        println!("{name}: {early} allocations after 100 turns, {late} after 4,000");
        assert!(late as f64 <= GROWS_AT_MOST * early as f64, "{name}: {early} and {late}");
    }
}
