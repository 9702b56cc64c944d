//! Tests of runs that wait for the approval of a person.

use std::time::Duration;

use neuron_durable::{DurableRuns, RunStatus, WaitEvent};
use neuron_types::ApprovalDecisions;
use serde_json::{Value, json};

use crate::operating::becomes;
use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn waiting_run_shows_its_calls_and_continues_with_the_decision() {
    let Some(mut scene) = Scene::open(|task| {
        // Restate suspends the run during the wait.
        task.aside_after = Some(Duration::from_millis(200));
    })
    .await
    else {
        return;
    };
    let run = scene.begin("wire:100,again:1").await;
    let waiting = pending(&scene, &run).await;
    assert_eq!(waiting["signal"], json!("approval"));
    assert_eq!(waiting["pending"]["calls"][0]["call"]["input"]["n"], json!(100));
    assert_eq!(waiting["pending"]["run_id"], json!(run));
    assert_eq!(waiting["pending"]["messages"], json!([]));
    tokio::time::sleep(Duration::from_millis(500)).await;
    scene.kill_service();
    assert_eq!(scene.count("begin wire"), 0);
    // Decisions in the format that a person writes by hand.
    let decisions = json!({"calls": {"call-0-0": {"type": "approve"}}});
    scene.signal(&run, "approval", decisions).await;
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert!(format!("{result:?}").contains("wire 100 with"), "{result:?}");
    assert_eq!((scene.count("begin wire"), scene.count("begin again")), (1, 1));
    gone(&scene, &run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_has_no_pending_calls() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("wire:100").await;
    pending(&scene, &run).await;
    scene.cancel(&run).await;
    assert_eq!(scene.end(&run).await.0, 409);
    gone(&scene, &run).await;
    assert_eq!(scene.count("begin wire"), 0);
}

/// Waits until the run has tool calls that need an approval, and returns these calls.
async fn pending(scene: &Scene, run: &str) -> Value {
    for _ in 0..1000 {
        let (status, body) = ask(scene, run).await;
        assert_eq!(status, 200, "{body}");
        if !body.is_null() {
            return body;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the run does not wait");
}

async fn gone(scene: &Scene, run: &str) {
    for _ in 0..1000 {
        if ask(scene, run).await.1.is_null() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the run is still shown");
}

async fn ask(scene: &Scene, run: &str) -> (u16, Value) {
    scene.ask("POST", &format!("/support.waiting/{run}/pending"), None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_agent_does_not_pay_again_after_an_approval() {
    let Some(mut scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("helper").await;
    let waits = becomes(&scene, &run, RunStatus::Waiting).await.waits_for.unwrap();
    let WaitEvent::Approval { pending: Some(pending), .. } = waits.event else {
        panic!("{waits:?}");
    };
    assert_eq!(pending.calls[0].nested.as_ref().unwrap().calls[0].call.name, "wire");
    scene.kill_service();
    let decisions = ApprovalDecisions::approve_all(&pending);
    scene.runs().signal(&run, "approval", json!(decisions)).await.unwrap();
    scene.outcome(&run).await.into_result().unwrap();
    for line in ["begin pay 7", "begin wire 1"] {
        assert_eq!(scene.count(line), 1, "{:#?}", scene.effects());
    }
    // Two model calls of the parent run, and four of the nested agent. The last two repeat the payment and end the
    // agent.
    assert_eq!(scene.count("model"), 6, "{:#?}", scene.effects());
}
