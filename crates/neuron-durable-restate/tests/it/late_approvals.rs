//! Tests of decisions that arrive after the deadline of the wait.

use std::time::Duration;

use neuron_durable::{DurableRuns, RunStatus, RunsError, WaitEvent};
use neuron_types::ApprovalDecisions;
use serde_json::json;

use crate::http;
use crate::operating::becomes;
use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn late_decision_is_refused_and_revived_run_makes_the_call_once() {
    let short = Duration::from_millis(300);
    let Some(mut scene) = Scene::open(|task| task.approval_timeout = short).await else { return };
    let runs = scene.runs();
    let run = scene.begin("once:1 wire:100,again:2").await;
    let error = scene.outcome(&run).await.into_result().unwrap_err();
    assert_eq!(error.kind, "ApprovalRequired");

    let approve = ApprovalDecisions::new().approve("call-1-0");
    let body = json!({"run_id": run, "name": "approval", "value": approve});
    let (status, body) = scene.ask("POST", "/support/signal", Some(&body)).await;
    assert_eq!(status, 410, "{body}");
    let late = runs.signal(&run, "approval", json!(approve)).await.unwrap_err();
    assert!(matches!(late, RunsError::Ended { .. }), "{late:?}");
    for text in [body["message"].as_str().unwrap(), &late.to_string()] {
        assert!(text.contains("nobody decided") && text.contains("revive it"), "{text}");
    }
    assert_eq!(
        scene.ask("POST", &format!("/support.waiting/{run}/pending"), None).await.1,
        json!(null)
    );
    let ended = runs.inspect(&run).await.unwrap();
    let WaitEvent::Approval { signal: None, pending: Some(pending) } =
        ended.waits_for.unwrap().event
    else {
        panic!("{:?}", ended.status);
    };
    assert_eq!((ended.status, pending.calls.len()), (RunStatus::Failed, 1));

    let unfit = runs.revive(&run, ApprovalDecisions::new().approve("call-7")).await.unwrap_err();
    assert!(matches!(unfit, RunsError::Approval(_)), "{unfit:?}");
    assert_eq!(scene.count("begin wire"), 0);

    let (revived, again) =
        tokio::join!(runs.revive(&run, approve.clone()), runs.revive(&run, approve));
    let revived = revived.unwrap();
    assert_eq!(again.unwrap(), revived);
    assert_ne!(revived, run);
    let result = scene.outcome(&revived).await.into_result().unwrap();
    assert!(format!("{result:?}").contains("wire 100 with"), "{result:?}");
    scene.kill_service();
    let deny = ApprovalDecisions::new().deny("call-1-0", "too late");
    assert_eq!(runs.revive(&run, deny).await.unwrap(), revived);
    becomes(&scene, &revived, RunStatus::Done).await;
    for line in ["begin once 1", "begin wire 100", "begin again 2"] {
        assert_eq!(scene.count(line), 1, "{line}");
    }
    // The idempotency keys are those of the old run.
    assert!(scene.count(&format!("begin wire 100 {run}")) == 1, "{:#?}", scene.effects());
    let done = runs.revive(&revived, ApprovalDecisions::new()).await.unwrap_err();
    assert!(
        matches!(&done, RunsError::NotRevivable { reason, .. } if reason == "it is done"),
        "{done:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn revived_run_waits_for_approvals_under_its_new_id() {
    let short = Duration::from_millis(300);
    let Some(mut scene) = Scene::open(|task| task.approval_timeout = short).await else { return };
    let run = scene.begin("wire:1 wire:2").await;
    scene.outcome(&run).await;
    scene.stop_service();
    scene.task.approval_timeout = Duration::from_secs(600);
    scene.start_service();
    let approve = |id: &str| ApprovalDecisions::new().approve(id);
    let revived = scene.runs().revive(&run, approve("call-0-0")).await.unwrap();
    let waits = becomes(&scene, &revived, RunStatus::Waiting).await.waits_for.unwrap();
    let WaitEvent::Approval { pending: Some(shown), .. } = waits.event else { panic!("{waits:?}") };
    assert_eq!(shown.run_id, revived);
    scene.runs().signal(&revived, "approval", json!(approve("call-1-0"))).await.unwrap();
    scene.outcome(&revived).await.into_result().unwrap();
    assert_eq!((scene.count("begin wire 1"), scene.count("begin wire 2")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_run_is_hidden_and_refuses_decisions_after_its_deadline() {
    let short = Duration::from_secs(3);
    let Some(scene) = Scene::open(|task| task.approval_timeout = short).await else { return };
    let run = scene.begin("wire:100").await;
    becomes(&scene, &run, RunStatus::Waiting).await;
    let path = format!("/invocations/{run}/kill");
    http::send(&scene.server.admin_url(), "PATCH", &path, None).await.unwrap();
    becomes(&scene, &run, RunStatus::Cancelled).await;
    let path = format!("/support.waiting/{run}/pending");
    let gone = async {
        while !scene.ask("POST", &path, None).await.1.is_null() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it stays listed");
    let body = json!({"run_id": run, "name": "approval", "value": {}});
    let (status, body) = scene.ask("POST", "/support/signal", Some(&body)).await;
    assert_eq!(status, 410, "{body}");
    let error = scene.runs().revive(&run, ApprovalDecisions::new()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, RunsError::NotRevivable { .. }) && text.contains("cancelled"),
        "{text}"
    );
}
