//! Crash tests of the public conformance suite (`neuron-conformance`) on a Restate server.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

use neuron_conformance_durable::crash::{self, CrashPlan};
use neuron_conformance_durable::{DurableEngine, EffectLog, RunFailure, Scenario};
use neuron_durable_restate::{AgentService, RunOutcome};
use neuron_testkit::engines::RestateServer;
use neuron_types::AgentResult;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::http;

/// The addresses of the server, and the port of the service.
#[derive(Clone, Serialize, Deserialize)]
struct Place {
    ingress: String,
    admin: String,
    port: u16,
}

struct Restate(Place);

impl Restate {
    /// Starts the run if it was not started before, and returns the id of its invocation. `run_id` is the idempotency
    /// key of the request, so repeated requests start only one run.
    async fn begin(&self, run_id: &str, body: Option<&Value>) -> Result<String, RunFailure> {
        let path = "/scenario/run/send";
        loop {
            let answer = http::send_once(&self.0.ingress, "POST", path, body, Some(run_id)).await;
            let (status, body) = answer.map_err(RunFailure::new)?;
            match (status, body["invocationId"].as_str()) {
                (_, Some(id)) => return Ok(id.to_owned()),
                // The service is not known until the first worker has registered it.
                (404, _) => tokio::time::sleep(Duration::from_millis(20)).await,
                _ => return Err(RunFailure::new(format!("{status} {body}"))),
            }
        }
    }
}

impl DurableEngine for Restate {
    async fn run(
        &self,
        run_id: &str,
        scenario: &Scenario,
        _: &EffectLog,
    ) -> Result<AgentResult, RunFailure> {
        let start = serde_json::to_value(scenario.start()).map_err(RunFailure::new)?;
        let invocation = self.begin(run_id, Some(&start)).await?;
        let path = format!("/restate/invocation/{invocation}/attach");
        let answer = http::send(&self.0.ingress, "GET", &path, None).await;
        let (status, body) = answer.map_err(RunFailure::new)?;
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

    async fn signal(&self, run_id: &str, name: &str, value: Value) -> Result<(), RunFailure> {
        // A repeated request must have the same body as the first request.
        let start = serde_json::to_value(Scenario::crash().start()).map_err(RunFailure::new)?;
        let invocation = self.begin(run_id, Some(&start)).await?;
        let body = json!({"run_id": invocation, "name": name, "value": value});
        let answer = http::send(&self.0.ingress, "POST", "/scenario/signal", Some(&body)).await;
        match answer.map_err(RunFailure::new)? {
            (200..300, _) => Ok(()),
            (status, body) => Err(RunFailure::new(format!("{status} {body}"))),
        }
    }
}

async fn open(place: String) -> Restate {
    Restate(serde_json::from_str(&place).unwrap())
}

/// Serves the agent until the process is killed.
async fn serve(place: String, scenario: Scenario, log: EffectLog) -> Infallible {
    let place: Place = serde_json::from_str(&place).unwrap();
    let listener = bind(place.port).await.unwrap();
    let service = AgentService::new(
        "scenario",
        scenario.provider(&log).into(),
        scenario.tools(&log),
        scenario.agent(&log),
    );
    let register = async {
        let body = json!({"uri": format!("http://127.0.0.1:{}", place.port), "force": true});
        let (status, body) =
            http::send(&place.admin, "POST", "/deployments", Some(&body)).await.unwrap();
        assert!(status < 300, "{status} {body}");
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        served = service.serve(listener, std::future::pending::<()>()) => panic!("{served:?}"),
        never = register => never,
    }
}

/// Binds the port of the service. Waits until the previous process with this port has ended.
async fn bind(port: u16) -> io::Result<tokio::net::TcpListener> {
    let mut attempts = 0;
    loop {
        match tokio::net::TcpListener::bind(("127.0.0.1", port)).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts < 200 => {
                attempts += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            bound => return bound,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_resume_runs() {
    let plan = CrashPlan { boundaries: 12, random_rounds: 6, ..CrashPlan::default() };
    check_killed_workers("conformance::killed_workers_resume_runs", plan, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_resume_runs_of_nested_agents() {
    let plan = CrashPlan { scenario: Scenario::team(), boundaries: 12, random_rounds: 2 };
    let test = "conformance::killed_workers_resume_runs_of_nested_agents";
    check_killed_workers(test, plan, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_of_several_agents_with_one_effect_key_pay_once() {
    let scenario = Scenario::team_effect_keys();
    let plan = CrashPlan { scenario, boundaries: 12, random_rounds: 2 };
    let test = "conformance::killed_workers_of_several_agents_with_one_effect_key_pay_once";
    check_killed_workers(test, plan, 12).await;
}

/// Runs the crash tests of `plan`, which kill processes that serve the agent. Checks that at least `kills` processes
/// were killed.
async fn check_killed_workers(test: &str, plan: CrashPlan, kills: usize) {
    // A child process uses the server of the test.
    let server = match neuron_conformance::child_process::task() {
        Some(_) => None,
        None => match RestateServer::or_skip() {
            Some(server) => Some(server),
            None => return,
        },
    };
    let place = async || {
        let server = server.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = Place {
            ingress: server.ingress_url(),
            admin: server.admin_url(),
            port: listener.local_addr().unwrap().port(),
        };
        (serde_json::to_string(&place).unwrap(), server)
    };
    let tally = crash::check_killed_workers(test, plan, place, open, serve).await;
    assert!(tally.kills >= kills, "{tally:?}");
    println!("{tally:?}");
}
