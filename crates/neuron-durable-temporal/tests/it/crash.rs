//! Crash tests of the durable conformance suite, which kill workers of a Temporal server.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use neuron_conformance_durable::crash::{self, CrashPlan};
use neuron_conformance_durable::{
    DurableEngine, EffectKind, EffectLog, RunFailure, Scenario, check_effects,
};
use neuron_durable_temporal::{AgentWorker, RunOutcome, TemporalError, TemporalRuns};
use neuron_testkit::engines::TemporalServer;
use neuron_types::AgentResult;
use serde_json::Value;
use temporalio_client::Client;

use crate::host::{TestContext, connect, options};

/// A durable engine for the conformance suite, with the client of a Temporal server. Each run has its own task queue,
/// named after its log file, so that tests do not share workers.
pub(crate) struct Engine {
    pub(crate) client: Client,
}

impl Engine {
    fn runs(&self, queue: &str) -> TemporalRuns {
        let runs = TemporalRuns::new(self.client.clone(), queue);
        runs.task_timeout(Duration::from_secs(3))
    }
}

/// Returns the name of the task queue for the runs that write to `log`.
pub(crate) fn queue(log: &EffectLog) -> String {
    let name = log.path().file_name().unwrap_or(log.path().as_os_str());
    Path::new(name).display().to_string()
}

impl DurableEngine for Engine {
    async fn run(
        &self,
        run_id: &str,
        scenario: &Scenario,
        log: &EffectLog,
    ) -> Result<AgentResult, RunFailure> {
        let runs = self.runs(&queue(log));
        let run = runs.get(run_id);
        match run.outcome().await {
            Err(TemporalError::NotFound { .. }) => {
                runs.start(run_id, scenario.start()).await.map_err(RunFailure::new)?;
            }
            ended => return result(ended),
        }
        result(run.outcome().await)
    }

    async fn signal(&self, run_id: &str, name: &str, value: Value) -> Result<(), RunFailure> {
        // The queue is needed only to start runs.
        self.runs("").get(run_id).signal(name, &value).await.map_err(RunFailure::new)
    }
}

/// Converts the end of a run for the suite.
pub(crate) fn result(ended: Result<RunOutcome, TemporalError>) -> Result<AgentResult, RunFailure> {
    ended.map_err(failure)?.into_result().map_err(|error| {
        let mut failure = RunFailure::new(error.text);
        failure.kind = Some(error.kind);
        failure
    })
}

pub(crate) fn failure(error: TemporalError) -> RunFailure {
    RunFailure::new(error.to_string())
}

/// Runs a worker for the agent of a scenario until the process is killed.
async fn serve(address: String, scenario: Scenario, log: EffectLog) -> Infallible {
    let client = connect(&address).await;
    let (provider, tools) = (scenario.provider(&log), scenario.tools(&log));
    let mut worker =
        AgentWorker::builder(client, queue(&log), provider, tools, scenario.agent(&log))
            .options(options())
            .sticky_timeout(Duration::from_millis(300))
            .build()
            .unwrap();
    worker.run().await.unwrap();
    unreachable!("nobody shuts it down")
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_resume_runs() {
    let plan = CrashPlan { boundaries: 8, random_rounds: 4, ..CrashPlan::default() };
    check_killed_workers("crash::killed_workers_resume_runs", plan, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_resume_runs_of_nested_agents() {
    let plan = CrashPlan { scenario: Scenario::team(), boundaries: 6, random_rounds: 1 };
    check_killed_workers("crash::killed_workers_resume_runs_of_nested_agents", plan, 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_of_several_agents_with_one_effect_key_pay_once() {
    let scenario = Scenario::team_effect_keys();
    let plan = CrashPlan { scenario, boundaries: 6, random_rounds: 1 };
    let test = "crash::killed_workers_of_several_agents_with_one_effect_key_pay_once";
    check_killed_workers(test, plan, 6).await;
}

/// Runs the crash tests of `plan`, and checks that they killed at least `kills` workers. `test` is the path of the
/// calling test, which is started again in the child processes.
async fn check_killed_workers(test: &str, plan: CrashPlan, kills: usize) {
    let place = async || {
        let server = tokio::task::spawn_blocking(TemporalServer::shared).await.unwrap();
        (server.expect("a server").address(), ())
    };
    let is_child = neuron_conformance::child_process::task().is_some();
    if !is_child && TemporalServer::shared().is_none() {
        return;
    }
    let open = async |address: String| Engine { client: connect(&address).await };
    let tally = crash::check_killed_workers(test, plan, place, open, serve).await;
    println!("{tally:?}");
    assert!(tally.kills >= kills, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_killed_server_continue_after_its_restart() {
    let directory = tempfile::tempdir().unwrap();
    let Ok(server) = TemporalServer::start_in(&directory.path().join("data.db")) else {
        assert!(TemporalServer::shared().is_none(), "it starts elsewhere");
        return;
    };
    let options = options();
    let bench = TestContext::on(&server, "server", &options).await;
    let scenario = Scenario::crash();
    let log = EffectLog::new(directory.path().join(&bench.queue));
    let (model, agent) = (scenario.provider(&log), scenario.agent(&log));
    let _worker = bench.serve_with(model, scenario.tools(&log), agent, &options);
    let run = bench.runs.start("run", scenario.start()).await.unwrap();
    let waits = |kind: &EffectKind| matches!(kind, EffectKind::Waits { .. });
    assert!(log.reached(waits).await);
    tokio::task::block_in_place(|| {
        server.kill().unwrap();
        server.restart().unwrap();
    });
    let before = log.model_calls();
    let signal = scenario.signals().remove(0);
    while run.signal(&signal.name, &signal.value).await.is_err() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let result = loop {
        match run.outcome().await {
            Ok(outcome) => break outcome.into_result().unwrap(),
            // The server does not accept connections yet.
            Err(TemporalError::Other(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(result.response, "All is done. [answer 4]");
    // Three model calls were made before the wait, and more follow. None is repeated.
    assert!(log.model_calls() > before);
    check_effects(&log, 6, 0);
    assert_eq!((log.starts_of("pay"), log.starts_of("wire")), (1, 1));
}
