//! Crash tests of the public conformance suite of durable engines. The tests kill processes that drive a run.

use neuron_conformance_durable::Scenario;
use neuron_conformance_durable::crash::{self, CrashPlan};
use neuron_durable_sqlite::SqliteRuns;
use tempfile::TempDir;

use crate::conformance::Engine;
use crate::support::place;

async fn somewhere() -> (String, TempDir) {
    let (folder, path) = place();
    (path.into_os_string().into_string().unwrap(), folder)
}

async fn open(path: String) -> Engine {
    Engine::new(SqliteRuns::open(path).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_runs_resume_at_every_boundary_and_random_moment() {
    const TEST: &str = "crash::killed_runs_resume_at_every_boundary_and_random_moment";
    let plan = CrashPlan { random_rounds: 110, ..CrashPlan::default() };
    let tally = crash::check_killed_runs(TEST, plan, somewhere, open).await;
    println!("{tally:?}");
    // `KILL_ROUNDS` may ask for fewer kills.
    assert!(tally.kills >= 200 || std::env::var_os("KILL_ROUNDS").is_some(), "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_runs_with_effect_keys_pay_once() {
    const TEST: &str = "crash::killed_runs_with_effect_keys_pay_once";
    let plan = CrashPlan { scenario: Scenario::effect_keys(), ..CrashPlan::default() };
    let tally = crash::check_killed_runs(TEST, plan, somewhere, open).await;
    println!("{tally:?}");
    assert!(tally.boundaries > 20 && tally.unknown_outcomes > 0, "{tally:?}");
}

/// Several agents of a run pay the same invoice, two of them at the same time. Whatever is killed, it is paid once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_runs_of_several_agents_with_one_effect_key_pay_once() {
    const TEST: &str = "crash::killed_runs_of_several_agents_with_one_effect_key_pay_once";
    let scenario = Scenario::team_effect_keys();
    let plan = CrashPlan { scenario, random_rounds: 100, ..CrashPlan::default() };
    let tally = crash::check_killed_runs(TEST, plan, somewhere, open).await;
    println!("{tally:?}");
    assert!(tally.kills >= 200 || std::env::var_os("KILL_ROUNDS").is_some(), "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_runs_resume_at_every_boundary_of_nested_agents() {
    const TEST: &str = "crash::killed_runs_resume_at_every_boundary_of_nested_agents";
    let plan = CrashPlan { scenario: Scenario::team(), random_rounds: 10, ..CrashPlan::default() };
    let tally = crash::check_killed_runs(TEST, plan, somewhere, open).await;
    println!("{tally:?}");
    // Two nested agents with twelve turns each, and a boundary before and after each call.
    assert!(tally.boundaries >= 100, "{tally:?}");
}
