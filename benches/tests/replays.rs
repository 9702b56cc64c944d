//! Checks that a step of a durable run costs the same whatever its history, and that the cost of a replay is in proportion
//! to its steps. The test counts allocations and not time, so the result is the same on every machine.

use std::path::Path;
use std::sync::Arc;

use neuron_benches::ALLOCATOR;
use neuron_benches::turn::{Clock, Cost, Forecast, ToolCaller, Unlimited};
use neuron_durable_sqlite::{SqliteOptions, SqliteRuns, Synchronous};
use neuron_loop::AgentLoop;
use neuron_tool::ToolRegistry;
use neuron_types::ToolContext;

/// A replay of ten times as many turns may cost this many times as much.
const REPLAY_AT_MOST: f64 = 12.0;

/// A step at turn 4,000 may cost this many times as much as one at turn 100.
const STEP_AT_MOST: f64 = 1.3;

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(Forecast);
    tools
}

/// Drives the run to its end. Returns its allocations.
async fn drive(path: &Path, provider: ToolCaller<'_>) -> usize {
    let options = SqliteOptions::default().synchronous(Synchronous::Normal);
    let runs = SqliteRuns::open_with(path, options).await.unwrap();
    let (turns, provider) = (provider.turns, Arc::new(provider));
    let context = runs.run("run").open(provider.clone(), Arc::new(tools())).await.unwrap();
    let agent = AgentLoop::builder(provider, Unlimited).tools(tools()).durability(context);
    let mut agent = agent.build();
    let before = ALLOCATOR.stats().allocations;
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(result.turns, turns + 1);
    ALLOCATOR.stats().allocations - before
}

/// Runs an agent for this many turns, and replays the run. Returns the cost of each turn, and the allocations of the
/// replay.
fn run(turns: usize) -> (Vec<Cost>, usize) {
    // The lease of the run is renewed by the clock.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let clock = Clock::with_capacity(turns + 1);
    let provider = || ToolCaller { turns, clock: &clock, waits: false };
    runtime.block_on(drive(&path, provider()));
    let replay = runtime.block_on(drive(&path, provider()));
    let costs = clock.costs();
    assert_eq!(costs.len(), turns, "a replay calls no model");
    (costs, replay)
}

/// Returns the median, which is the same for all turns between two growths of a vector.
fn allocations(costs: &[Cost], after: usize) -> usize {
    let mut counts: Vec<_> = costs[after..after + 20].iter().map(|cost| cost.allocations).collect();
    counts.sort_unstable();
    counts[counts.len() / 2]
}

// There is only one test, because the counter is for the whole process.
#[test]
fn a_step_costs_what_is_new_and_a_replay_what_its_steps_cost() {
    let (steps, _) = run(4_020);
    let (early, late) = (allocations(&steps, 100), allocations(&steps, 4_000));
    println!("a step allocates {early} times at turn 100, {late} times at turn 4,000");
    assert!(late as f64 <= STEP_AT_MOST * early as f64, "{early} and {late}");
    let ((_, short), (_, long)) = (run(250), run(2_500));
    println!("a replay allocates {short} times for 250 turns, {long} times for 2,500");
    assert!(long as f64 <= REPLAY_AT_MOST * short as f64, "{short} and {long}");
}
