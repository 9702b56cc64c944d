//! Processes that are killed while they drive a run.

use neuron_conformance_durable::crash::{self, CrashPlan};
use neuron_durable_sqlite::SqliteRuns;

use crate::conformance::Engine;
use crate::support::place;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_every_boundary_and_at_any_moment_a_killed_run_goes_on() {
    const TEST: &str = "crash::at_every_boundary_and_at_any_moment_a_killed_run_goes_on";
    let somewhere = async || {
        let (folder, path) = place();
        (path.into_os_string().into_string().unwrap(), folder)
    };
    let open = async |path: String| Engine::new(SqliteRuns::open(path).await.unwrap());
    let plan = CrashPlan { random_rounds: 110, ..CrashPlan::default() };
    let tally = crash::check_killed_runs(TEST, plan, somewhere, open).await;
    println!("{tally:?}");
    // Unless somebody asks for fewer.
    assert!(tally.kills >= 200 || std::env::var_os("KILL_ROUNDS").is_some(), "{tally:?}");
}
