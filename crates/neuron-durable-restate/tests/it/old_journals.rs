//! A test of a journal that an older release of this crate began.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use neuron_durable_restate::restate_sdk::context::RunFuture;
use neuron_durable_restate::restate_sdk::prelude::*;
use neuron_types::{PendingApproval, TokenUsage};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::scene::Scene;

/// A service that writes the journal of an older release of this crate. It records only the time, and then fails.
struct OlderRelease(Arc<AtomicBool>);

#[restate_sdk::service(name = "support")]
impl OlderRelease {
    #[handler]
    async fn run(
        &self,
        ctx: Context<'_>,
        _asked: Json<Value>,
    ) -> Result<Json<Value>, HandlerError> {
        ctx.run(|| async { Ok(Json(json!(1_700_000_000_000_i64))) }).name("time/0").await?;
        self.0.store(true, SeqCst);
        Err(std::io::Error::other("it dies").into())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_an_older_release_continues_without_newer_entries() {
    // The run is not pinned, so the version of this code is not checked.
    let Some(mut scene) = Scene::open(|task| task.agent_version = Some("v2".into())).await else {
        return;
    };
    scene.stop_service();
    let has_written = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind(("127.0.0.1", scene.task.port)).await.unwrap();
    let endpoint = Endpoint::builder().bind(OlderRelease(has_written.clone())).build();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let older = tokio::spawn(HttpServer::new(endpoint).serve_with_cancel(listener, stopped));
    let run = scene.begin("wire:100 pure:2\nsleep:10").await;
    while !has_written.load(SeqCst) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.send(()).unwrap();
    older.await.unwrap();
    scene.start_service();

    let path = format!("/support.waiting/{run}/pending");
    let waiting = loop {
        let waiting = scene.ask("POST", &path, None).await.1;
        if !waiting.is_null() {
            break waiting;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let fields: Vec<_> = waiting.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["signal", "pending"]);
    let pending: PendingApproval = serde_json::from_value(waiting["pending"].clone()).unwrap();
    assert_eq!((pending.requests, pending.usage), (0, TokenUsage::default()));
    scene.kill_service();
    scene.signal(&run, "approval", json!({"calls": {"call-0-0": {"type": "approve"}}})).await;
    scene.outcome(&run).await.into_result().unwrap();
    assert_eq!((scene.count("begin wire"), scene.count("begin pure")), (1, 1));
    let state = scene.query("SELECT key FROM state").await;
    assert_eq!(state, json!([]));
}
