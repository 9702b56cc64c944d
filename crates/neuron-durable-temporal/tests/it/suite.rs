//! Runs the durable conformance suite on a real server. The module `crash` contains the tests that kill processes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use neuron_conformance_durable::{DurableEngine, EffectKind, EffectLog, RunFailure, Scenario};
use neuron_conformance_durable::{Verdict, durable_parts};
use neuron_durable_temporal::{TemporalError, TemporalRun, replay_history};
use neuron_testkit::engines::TemporalServer;
use neuron_types::AgentResult;
use serde_json::Value;

use crate::crash::{failure, result};
use crate::host::{Serving, TestContext, options};

struct Temporal {
    server: &'static TemporalServer,
    hosts: Mutex<HashMap<String, Host>>,
}

/// The worker of one run, with a task queue of its own.
struct Host {
    scenario: Scenario,
    bench: TestContext,
    worker: Serving,
}

impl Temporal {
    fn hosts(&self) -> MutexGuard<'_, HashMap<String, Host>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a worker with the agent of the scenario, if no such worker is running for the run. Returns a handle to
    /// the run.
    async fn host(&self, run_id: &str, scenario: &Scenario, log: &EffectLog) -> TemporalRun {
        let before = self.hosts().remove(run_id);
        let host = match before {
            Some(host) if host.scenario == *scenario => host,
            before => {
                let bench = match before {
                    Some(Host { bench, worker, .. }) => {
                        tokio::task::block_in_place(|| drop(worker));
                        bench
                    }
                    None => TestContext::on(self.server, "suite", &options()).await,
                };
                let (model, tools) = (scenario.provider(log), scenario.tools(log));
                let worker = bench.serve_with(model, tools, scenario.agent(log), &options());
                Host { scenario: *scenario, bench, worker }
            }
        };
        let run = host.bench.runs.get(run_id);
        self.hosts().insert(run_id.to_owned(), host);
        run
    }

    /// Waits until a worker for the run has been started, and returns a handle to the run.
    async fn run_of(&self, run_id: &str) -> TemporalRun {
        loop {
            if let Some(host) = self.hosts().get(run_id) {
                return host.bench.runs.get(run_id);
            }
            tokio::task::yield_now().await;
        }
    }
}

impl DurableEngine for Temporal {
    async fn run(
        &self,
        run_id: &str,
        scenario: &Scenario,
        log: &EffectLog,
    ) -> Result<AgentResult, RunFailure> {
        let run = self.host(run_id, scenario, log).await;
        // The server would start a run again that has ended, so its result is read first.
        match run.outcome().await {
            Err(TemporalError::NotFound { .. }) => {}
            ended => return result(ended),
        }
        let runs = self.hosts()[run_id].bench.runs.clone();
        runs.start(run_id, scenario.start()).await.map_err(failure)?;
        result(run.outcome().await)
    }

    async fn signal(&self, run_id: &str, name: &str, value: Value) -> Result<(), RunFailure> {
        self.run_of(run_id).await.signal(name, &value).await.map_err(failure)
    }

    async fn replay(
        &self,
        run_id: &str,
        scenario: &Scenario,
        log: &EffectLog,
    ) -> Option<Result<(), RunFailure>> {
        let history = self.run_of(run_id).await.history().await.unwrap();
        let agent = scenario.agent(log);
        // The future of the replay is not `Send`.
        let replay = move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(replay_history(agent, options(), &history))
        };
        Some(tokio::task::spawn_blocking(replay).await.unwrap().map_err(failure))
    }

    /// Starts the run with the code `first`, then replays its history with the changed code `then`. Returns the failure
    /// of the replay.
    ///
    /// The history is replayed, because a real worker with the changed code would only stall the run.
    async fn change_code(
        &self,
        run_id: &str,
        first: &Scenario,
        then: &Scenario,
        log: &EffectLog,
    ) -> Option<Result<AgentResult, RunFailure>> {
        let waits = |kind: &EffectKind| matches!(kind, EffectKind::Waits { .. });
        tokio::select! {
            result = self.run(run_id, first, log) => return Some(result),
            _ = log.reached(waits) => {}
        }
        let replayed = self.replay(run_id, then, log).await?;
        Some(Err(replayed.expect_err("the code is another")))
    }

    fn is_code_change(&self, failure: &RunFailure) -> bool {
        failure.text.contains("replay differs from the journal")
    }

    async fn cancel(&self, run_id: &str) -> Option<Result<(), RunFailure>> {
        Some(self.run_of(run_id).await.cancel().await.map_err(failure))
    }

    async fn journal_bytes(&self, run_id: &str) -> Option<u64> {
        let history = self.run_of(run_id).await.history().await.unwrap();
        u64::try_from(history.len()).ok()
    }

    /// Returns `false`, because each tool runs in an activity. The scopes that hooks open around a call exist only in
    /// the workflow.
    fn runs_tools_in_scopes(&self) -> bool {
        false
    }
}

macro_rules! parts {
    ($($part:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $part() {
            let server = tokio::task::spawn_blocking(TemporalServer::shared).await.unwrap();
            let Some(server) = server else { return };
            let engine = Temporal { server, hosts: Mutex::default() };
            let verdict = neuron_conformance_durable::$part(&engine).await;
            match stringify!($part) {
                "tool_scopes" => assert!(matches!(verdict, Verdict::NotApplicable(_))),
                _ => assert_eq!(verdict, Verdict::Holds),
            }
        }
    )*};
}

durable_parts!(parts);
