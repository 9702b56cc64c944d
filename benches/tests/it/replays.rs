//! Checks the number of allocations of durable runs. For a step, it must not depend on the length of the history. For a
//! replay, it must be proportional to the number of steps. The test counts allocations instead of measuring time, so
//! its result is the same on every machine.

use std::path::Path;
use std::sync::Arc;

use neuron_benches::ALLOCATOR;
use neuron_benches::turn::{Clock, Cost, Forecast, ToolCaller, Unlimited};
use neuron_durable_sqlite::{SqliteOptions, SqliteRuns, Synchronous};
use neuron_loop::AgentLoop;
use neuron_tool::ToolRegistry;
use neuron_types::ToolContext;

/// Maximum ratio of the allocations of a replay to the allocations of a replay with a tenth of the turns.
const REPLAY_AT_MOST: f64 = 12.0;

/// Maximum ratio of the allocations of a step at turn 4,000 to the allocations of a step at turn 100.
const STEP_AT_MOST: f64 = 1.3;

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(Forecast);
    tools
}

/// Runs or replays the durable run in the journal at `path` to its end. Returns the number of allocations.
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

/// Runs an agent for `turns` turns, then replays the run. Returns the cost of each turn, and the number of allocations
/// of the replay.
fn run(turns: usize) -> (Vec<Cost>, usize) {
    // The run's lease is renewed by a timer, so the runtime needs time.
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

/// Returns the median number of allocations of the turns after the turn `after`. The few turns that also grow a vector
/// do not change the median.
fn allocations(costs: &[Cost], after: usize) -> usize {
    let mut counts: Vec<_> = costs[after..after + 20].iter().map(|cost| cost.allocations).collect();
    counts.sort_unstable();
    counts[counts.len() / 2]
}

#[test]
fn step_cost_is_constant_and_replay_cost_is_linear() {
    let _guard = crate::run_alone();
    let (steps, _) = run(4_020);
    let (early, late) = (allocations(&steps, 100), allocations(&steps, 4_000));
    println!("a step allocates {early} times at turn 100, {late} times at turn 4,000");
    assert!(late as f64 <= STEP_AT_MOST * early as f64, "{early} and {late}");
    let ((_, short), (_, long)) = (run(250), run(2_500));
    println!("a replay allocates {short} times for 250 turns, {long} times for 2,500");
    assert!(long as f64 <= REPLAY_AT_MOST * short as f64, "{short} and {long}");
}
