//! A test environment with a server, a service and the log of its effects.

use std::path::PathBuf;
use std::time::Duration;

use neuron_durable_restate::{RestateRuns, RunOutcome};
use neuron_testkit::engines::RestateServer;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http;
use crate::model::Effects;
use crate::service::{Started, Task};

pub(crate) struct Scene {
    pub(crate) server: RestateServer,
    pub(crate) task: Task,
    pub(crate) service: Option<Started>,
    _folder: TempDir,
}

impl Scene {
    /// Starts a server and a service, whose settings `change` may modify. Returns `None` if no Restate server is
    /// available.
    pub(crate) async fn open(change: impl FnOnce(&mut Task)) -> Option<Self> {
        Some(Self::on(RestateServer::or_skip()?, change).await)
    }

    pub(crate) async fn on(server: RestateServer, change: impl FnOnce(&mut Task)) -> Self {
        let folder = TempDir::new().unwrap();
        let mut task = Task::new(folder.path().join("effects"));
        change(&mut task);
        let service = task.start();
        task.port = service.port;
        let scene = Self { server, task, service: Some(service), _folder: folder };
        scene.register().await;
        scene
    }

    /// Returns a client for operations on the runs.
    pub(crate) fn runs(&self) -> RestateRuns {
        RestateRuns::new("support", self.server.ingress_url(), self.server.admin_url())
    }

    pub(crate) async fn register(&self) {
        let address = format!("http://127.0.0.1:{}", self.task.port);
        self.server.register(&address).await.unwrap();
    }

    /// Sends a request to the ingress port. Returns the status and the body.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        http::send(&self.server.ingress_url(), method, path, body).await.unwrap()
    }

    /// Kills the service and starts it again.
    pub(crate) fn kill_service(&mut self) {
        self.stop_service();
        self.start_service();
    }

    pub(crate) fn stop_service(&mut self) {
        drop(self.service.take().unwrap().process.kill());
    }

    pub(crate) fn start_service(&mut self) {
        self.service = Some(self.task.start());
    }

    /// Starts a run whose user message is `script`, the script of the model. Returns the id of the run.
    pub(crate) async fn begin(&self, script: &str) -> String {
        let (status, body) = self.ask("POST", "/support/run/send", Some(&json!(script))).await;
        assert!(status < 300, "{status} {body}");
        body["invocationId"].as_str().unwrap().to_owned()
    }

    /// Waits for the end of a run. Returns the HTTP status and the body of the server's response. The body is the
    /// outcome of the run or an error.
    pub(crate) async fn end(&self, run: &str) -> (u16, Value) {
        let path = format!("/restate/invocation/{run}/attach");
        let ingress = self.server.ingress_url();
        for _ in 0..600 {
            let answer = http::send(&ingress, "GET", &path, None);
            match tokio::time::timeout(Duration::from_secs(120), answer).await {
                Ok(Ok(answer)) => return answer,
                // The server was killed, so the request is repeated.
                Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(_) => panic!("run {run} does not end: {:#?}", self.effects()),
            }
        }
        panic!("the server does not answer");
    }

    pub(crate) async fn outcome(&self, run: &str) -> RunOutcome {
        let (status, body) = self.end(run).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_value(body).unwrap()
    }

    pub(crate) async fn signal(&self, run: &str, name: &str, value: Value) {
        let body = json!({"run_id": run, "name": name, "value": value});
        let answer = self.ask("POST", "/support/signal", Some(&body)).await;
        assert!(answer.0 < 300, "{answer:?}");
    }

    pub(crate) async fn cancel(&self, run: &str) {
        let path = format!("/invocations/{run}/cancel");
        let answer = http::send(&self.server.admin_url(), "PATCH", &path, None).await.unwrap();
        assert!(answer.0 < 300, "{answer:?}");
    }

    pub(crate) async fn query(&self, sql: &str) -> Value {
        Value::Array(self.server.query(sql).await.unwrap())
    }

    pub(crate) fn effects(&self) -> Vec<String> {
        Effects::read(&self.task.effects)
    }

    pub(crate) fn forget_effects(&self) {
        std::fs::write(&self.task.effects, "").unwrap();
    }

    pub(crate) fn count(&self, beginning: &str) -> usize {
        self.effects().iter().filter(|line| line.starts_with(beginning)).count()
    }

    /// Waits until the log of effects has a line that begins with `beginning`.
    pub(crate) async fn see(&self, beginning: &str) {
        for _ in 0..6000 {
            if self.count(beginning) > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{beginning} does not happen: {:#?}", self.effects());
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self._folder.path().to_owned()
    }
}
