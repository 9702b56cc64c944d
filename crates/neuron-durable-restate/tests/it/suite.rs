//! Runs the public conformance suite on a Restate server, without killed processes. The module `conformance` kills
//! processes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use neuron_conformance_durable::{
    DurableEngine, EffectKind, EffectLog, RunFailure, Scenario, check_durable_engine,
};
use neuron_durable_restate::{AgentService, RunOutcome};
use neuron_testkit::engines::RestateServer;
use neuron_types::AgentResult;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::http;

struct Restate {
    server: RestateServer,
    hosts: Mutex<HashMap<String, Host>>,
}

/// The host of one run. It owns its runtime, so dropping the host ends all of its tasks.
struct Host {
    scenario: Scenario,
    port: u16,
    invocation: Option<String>,
    runtime: Option<Runtime>,
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Restate {
    /// Starts a service that hosts the run with the agent of this scenario. A service with another scenario is stopped
    /// first.
    async fn host(&self, run_id: &str, scenario: &Scenario, log: &EffectLog) {
        let before = self.hosts.lock().unwrap_or_else(PoisonError::into_inner).remove(run_id);
        let host = match before {
            Some(host) if host.scenario == *scenario => host,
            before => {
                let port = before.as_ref().map_or(0, |host| host.port);
                let invocation = before.as_ref().and_then(|host| host.invocation.clone());
                drop(before);
                let host = start(run_id, scenario, log, port, invocation).await;
                if port == 0 {
                    let address = format!("http://127.0.0.1:{}", host.port);
                    self.server.register(&address).await.unwrap();
                }
                host
            }
        };
        self.hosts.lock().unwrap().insert(run_id.to_owned(), host);
    }

    /// Waits until the run has begun, and returns the id of its invocation.
    async fn invocation(&self, run_id: &str) -> String {
        loop {
            if let Some(host) = self.hosts.lock().unwrap().get(run_id)
                && let Some(id) = &host.invocation
            {
                return id.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        http::send(&self.server.ingress_url(), method, path, body).await.unwrap()
    }
}

/// Returns the name of the service that hosts only this run.
fn name(run_id: &str) -> String {
    format!("s-{}", run_id.replace(|c: char| !c.is_ascii_alphanumeric(), "-"))
}

async fn start(
    run_id: &str,
    scenario: &Scenario,
    log: &EffectLog,
    port: u16,
    invocation: Option<String>,
) -> Host {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let service = AgentService::new(
        name(run_id),
        scenario.provider(log).into(),
        scenario.tools(log),
        scenario.agent(log),
    );
    let (tell, told) = tokio::sync::oneshot::channel();
    runtime.spawn(async move {
        let listener = loop {
            match TcpListener::bind(("127.0.0.1", port)).await {
                Ok(listener) => break listener,
                // The dropped host may not have released the port yet.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        tell.send(listener.local_addr().unwrap().port()).unwrap();
        service.serve(listener, std::future::pending::<()>()).await.unwrap();
    });
    let port = told.await.unwrap();
    Host { scenario: *scenario, port, invocation, runtime: Some(runtime) }
}

impl DurableEngine for Restate {
    async fn run(
        &self,
        run_id: &str,
        scenario: &Scenario,
        log: &EffectLog,
    ) -> Result<AgentResult, RunFailure> {
        self.host(run_id, scenario, log).await;
        let begun = self.hosts.lock().unwrap()[run_id].invocation.clone();
        let invocation = match begun {
            Some(invocation) => invocation,
            None => {
                let start = serde_json::to_value(scenario.start()).map_err(RunFailure::new)?;
                let path = format!("/{}/run/send", name(run_id));
                let (status, body) = self.ask("POST", &path, Some(&start)).await;
                let id = body["invocationId"].as_str().map(str::to_owned);
                let id = id.ok_or_else(|| RunFailure::new(format!("{status} {body}")))?;
                let mut hosts = self.hosts.lock().unwrap();
                hosts.get_mut(run_id).unwrap().invocation = Some(id.clone());
                id
            }
        };
        let path = format!("/restate/invocation/{invocation}/attach");
        let (status, body) = self.ask("GET", &path, None).await;
        if status != 200 {
            return Err(RunFailure::new(format!("{status} {body}")));
        }
        let outcome: RunOutcome = serde_json::from_value(body).map_err(RunFailure::new)?;
        outcome.into_result().map_err(|error| {
            let mut failure = RunFailure::new(&error);
            failure.kind = Some(error.kind);
            failure
        })
    }

    async fn signal(&self, run_id: &str, signal: &str, value: Value) -> Result<(), RunFailure> {
        let invocation = self.invocation(run_id).await;
        let body = json!({"run_id": invocation, "name": signal, "value": value});
        match self.ask("POST", &format!("/{}/signal", name(run_id)), Some(&body)).await {
            (200..300, _) => Ok(()),
            (status, body) => Err(RunFailure::new(format!("{status} {body}"))),
        }
    }

    /// Returns `None`, because Restate answers for a completed invocation from its journal and does not replay
    /// it.
    async fn replay(&self, _: &str, _: &Scenario, _: &EffectLog) -> Option<Result<(), RunFailure>> {
        None
    }

    async fn change_code(
        &self,
        run_id: &str,
        first: &Scenario,
        then: &Scenario,
        log: &EffectLog,
    ) -> Option<Result<AgentResult, RunFailure>> {
        {
            let run = self.run(run_id, first, log);
            let waits = async {
                while log.count(|kind| matches!(kind, EffectKind::Waits { .. })) == 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                result = run => return Some(result),
                () = waits => {}
            }
        }
        self.host(run_id, then, log).await;
        let invocation = self.invocation(run_id).await;
        let sql = format!("SELECT last_failure FROM sys_invocation WHERE id = '{invocation}'");
        loop {
            let rows = Value::Array(self.server.query(&sql).await.unwrap());
            if let Some(failure) = rows[0]["last_failure"].as_str()
                && failure.contains("replay differs")
            {
                return Some(Err(RunFailure::new(failure)));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn cancel(&self, run_id: &str) -> Option<Result<(), RunFailure>> {
        let path = format!("/invocations/{}/cancel", self.invocation(run_id).await);
        let answer = http::send(&self.server.admin_url(), "PATCH", &path, None).await.unwrap();
        Some(match answer {
            (200..300, _) => Ok(()),
            (status, body) => Err(RunFailure::new(format!("{status} {body}"))),
        })
    }

    async fn journal_bytes(&self, run_id: &str) -> Option<u64> {
        let invocation = self.invocation(run_id).await;
        let sql = format!("SELECT entry_json FROM sys_journal WHERE id = '{invocation}'");
        let rows = self.server.query(&sql).await.unwrap();
        let bytes: usize = rows.iter().map(|row| row.to_string().len()).sum();
        u64::try_from(bytes).ok()
    }

    /// Returns `false`, because each tool call runs in a separate handler, possibly in another process. The scopes of
    /// the call, such as tracing spans, do not exist there.
    fn runs_tools_in_scopes(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restate_passes_the_suite() {
    let Some(server) = RestateServer::or_skip() else { return };
    let engine = Restate { server, hosts: Mutex::default() };
    let report = check_durable_engine(&engine).await;
    println!("{report}");
    assert_eq!(report.not_applicable(), ["tool_scopes"], "{report}");
}
