//! Tests of server responses that are missing, unreadable or unrelated.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hyper::{Request, Response};
use neuron_durable::{DurableRuns, RunStatus, RunsError};
use neuron_durable_restate::restate_sdk::ingress::RequestExecutor;
use neuron_durable_restate::{PlainHttp, RestateRuns};
use serde_json::{Value, json};

use crate::http;
use crate::operating::becomes;
use crate::scene::Scene;

/// An HTTP client that records the responses, and can replace the outcomes of runs.
#[derive(Clone, Default)]
struct Client {
    outcome: Option<(u16, &'static str)>,
    answers: Arc<Mutex<String>>,
}

impl RequestExecutor for Client {
    type Error = io::Error;

    async fn execute(&self, request: Request<Bytes>) -> io::Result<Response<Bytes>> {
        if let Some((status, body)) = self.outcome
            && request.uri().path().ends_with("/output")
        {
            return Ok(Response::builder().status(status).body(body.into()).unwrap());
        }
        let response = PlainHttp.execute(request).await?;
        self.answers.lock().unwrap().push_str(&String::from_utf8_lossy(response.body()));
        Ok(response)
    }
}

fn runs_with_outcome(scene: &Scene, status: u16, body: &'static str) -> RestateRuns<Client> {
    scene.runs().with_client(Client { outcome: Some((status, body)), ..Client::default() })
}

async fn administer(scene: &Scene, method: &str, path: &str, body: Option<&Value>) {
    let answer = http::send(&scene.server.admin_url(), method, path, body).await.unwrap();
    assert!(answer.0 < 300, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_outcome_is_an_error_or_listed_as_damaged() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let failed = scene.begin("pure:1\nwait:go:60000").await;
    scene.signal(&failed, "go", json!(7)).await;
    becomes(&scene, &failed, RunStatus::Failed).await;
    let waits = scene.begin("pure:1\nwait:go:60000").await;
    becomes(&scene, &waits, RunStatus::Waiting).await;

    for status in [500, 503, 401] {
        let runs = runs_with_outcome(&scene, status, r#"{"message": "not now"}"#);
        for error in [runs.list().await.map(drop), runs.inspect(&failed).await.map(drop)] {
            let error = error.unwrap_err();
            assert!(matches!(error, RunsError::Engine(_)), "{error:?}");
            assert!(error.to_string().contains("not now"), "{error}");
        }
        assert_eq!(runs.inspect(&waits).await.unwrap().status, RunStatus::Waiting);
    }
    // If the server does not have the outcome, the register has the status.
    for status in [404, 470] {
        let runs = runs_with_outcome(&scene, status, "{}");
        assert_eq!(runs.inspect(&failed).await.unwrap().status, RunStatus::Failed);
    }
    let listed = runs_with_outcome(&scene, 200, "[]").list().await.unwrap();
    let states: Vec<_> = listed.iter().map(|run| run.status).collect();
    assert_eq!(states, [RunStatus::Damaged, RunStatus::Waiting]);
    assert!(listed[0].reason.is_some(), "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_with_an_unreadable_register_entry_is_listed_as_damaged() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let [torn, foreign, waits] =
        [0, 1, 2].map(async |_| scene.begin("pure:1\nwait:go:60000").await);
    let (torn, foreign, waits) = (torn.await, foreign.await, waits.await);
    for run in [&torn, &foreign, &waits] {
        becomes(&scene, run, RunStatus::Waiting).await;
    }
    // One value is not UTF-8, and the other one is not a wait.
    for (run, value) in [(&torn, vec![255]), (&foreign, vec![b'7'])] {
        let body = json!({"object_key": run, "new_state": {"pending": value}});
        administer(&scene, "POST", "/services/support.waiting/state", Some(&body)).await;
        let damaged = becomes(&scene, run, RunStatus::Damaged).await;
        assert!(damaged.reason.unwrap().contains("`pending`"));
    }
    let listed = scene.runs().list().await.unwrap();
    let find = |id: &str| listed.iter().find(|run| run.id == id).unwrap().status;
    assert_eq!((find(&torn), find(&waits)), (RunStatus::Damaged, RunStatus::Waiting));
    // The run itself is not affected.
    scene.runs().signal(&torn, "go", json!("!")).await.unwrap();
    scene.outcome(&torn).await.into_result().unwrap();
    becomes(&scene, &torn, RunStatus::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn list_removes_register_entries_of_killed_runs() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let killed = scene.begin("wire:100").await;
    let waits = scene.begin("wire:100").await;
    for run in [&killed, &waits] {
        becomes(&scene, run, RunStatus::Waiting).await;
    }
    administer(&scene, "PATCH", &format!("/invocations/{killed}/kill"), None).await;
    becomes(&scene, &killed, RunStatus::Cancelled).await;
    administer(&scene, "PATCH", &format!("/invocations/{killed}/purge"), None).await;
    let keys = "SELECT DISTINCT service_key FROM state";
    let removed = async {
        while scene.query(keys).await != json!([{"service_key": waits}]) {
            scene.runs().list().await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), removed).await.expect("its entry stays");
    assert_eq!(scene.runs().inspect(&waits).await.unwrap().status, RunStatus::Waiting);
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_reads_only_invocations_of_the_run() {
    let Some(scene) = Scene::open(|task| task.continue_after = Some(4)).await else { return };
    let other = scene.begin("again:1 again:2 again:3 again:4").await;
    let run = scene.begin("again:5 again:6 again:7 again:8").await;
    for run in [&other, &run] {
        scene.outcome(run).await.into_result().unwrap();
    }
    let client = Client::default();
    let runs = scene.runs().with_client(client.clone());
    assert!(runs.inspect(&run).await.unwrap().execution >= Some(2));
    let answers = std::mem::take(&mut *client.answers.lock().unwrap());
    assert!(answers.contains(&run) && !answers.contains(&other), "{answers}");
}
