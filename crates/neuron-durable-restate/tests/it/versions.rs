//! Tests of runs that are pinned to a version of the agent.

use std::time::Duration;

use neuron_durable::{DurableRuns, RunStatus};

use crate::operating::becomes;
use crate::scene::Scene;

fn restart(scene: &mut Scene, version: &str, goes_on: bool) {
    scene.stop_service();
    scene.task.agent_version = Some(version.into());
    scene.task.changed_agent_goes_on = goes_on;
    scene.start_service();
}

fn names(reason: &str, expected: &str, got: &str) -> bool {
    reason.contains(&format!("expected agent version `{expected}`"))
        && reason.contains(&format!("got agent version `{got}`"))
}

#[tokio::test(flavor = "multi_thread")]
async fn run_continues_with_another_version_only_if_allowed() {
    let Some(mut scene) = Scene::open(|task| task.agent_version = Some("v1".into())).await else {
        return;
    };
    let run = scene.begin("again:1:1500 again:2:4000").await;
    scene.see("begin again 1").await;
    assert_eq!(scene.runs().inspect(&run).await.unwrap().agent_version.as_deref(), Some("v1"));
    restart(&mut scene, "v2", false);
    let stalled = becomes(&scene, &run, RunStatus::Stalled).await;
    assert!(names(&stalled.reason.unwrap(), "v1", "v2"));
    assert_eq!(scene.count("model"), 1);

    // The run continues, and is pinned to the new version.
    restart(&mut scene, "v2", true);
    scene.see("begin again 2").await;
    let pinned = async {
        while scene.runs().inspect(&run).await.unwrap().agent_version.as_deref() != Some("v2") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), pinned).await.expect("it is pinned to v2");
    restart(&mut scene, "v1", false);
    let stalled = becomes(&scene, &run, RunStatus::Stalled).await;
    assert!(names(&stalled.reason.unwrap(), "v2", "v1"));

    restart(&mut scene, "v2", true);
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert_eq!((result.response.as_str(), scene.count("model")), ("done", 3));
    let done = scene.runs().inspect(&run).await.unwrap();
    assert_eq!((done.status, done.agent_version.as_deref()), (RunStatus::Done, Some("v2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn continued_run_keeps_its_version() {
    let Some(mut scene) = Scene::open(|task| {
        (task.agent_version, task.continue_after) = (Some("v1".into()), Some(4));
    })
    .await
    else {
        return;
    };
    let run = scene.begin("again:1 again:2 again:3:3000").await;
    scene.see("begin again 3").await;
    restart(&mut scene, "v2", false);
    let stalled = becomes(&scene, &run, RunStatus::Stalled).await;
    assert!(names(&stalled.reason.unwrap(), "v1", "v2"));
    assert!(stalled.execution >= Some(1));
    restart(&mut scene, "v1", false);
    scene.outcome(&run).await.into_result().unwrap();
    assert_eq!(scene.count("model"), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_code_of_another_version_writes_nothing() {
    let Some(mut scene) = Scene::open(|task| task.agent_version = Some("v1".into())).await else {
        return;
    };
    // The run stops at the end of its journal.
    let go_on = scene.folder().join("go-on");
    let run = scene.begin(&format!("pure:1\npanic:{}", go_on.display())).await;
    scene.see("begins").await;
    scene.task.first = "sleep:10".into();
    restart(&mut scene, "v2", false);
    let refused = async {
        loop {
            let summary = scene.runs().inspect(&run).await.unwrap();
            if summary.reason.is_some_and(|reason| names(&reason, "v1", "v2")) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), refused).await.expect("it is refused");
    let journal = format!("SELECT entry_type FROM sys_journal WHERE id = '{run}'");
    let journal = scene.query(&journal).await.to_string();
    assert!(journal.contains("Run") && !journal.contains("Sleep"), "{journal}");

    std::fs::write(go_on, "").unwrap();
    scene.task.first = String::new();
    restart(&mut scene, "v1", false);
    scene.outcome(&run).await.into_result().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn version_changed_after_a_wait_is_named_in_the_error() {
    let Some(mut scene) = Scene::open(|task| task.agent_version = Some("v1".into())).await else {
        return;
    };
    let run = scene.begin("again:1:6000\nwait:go:60000").await;
    becomes(&scene, &run, RunStatus::Waiting).await;
    restart(&mut scene, "v2", true);
    scene.signal(&run, "go", serde_json::json!("!")).await;
    scene.see("begin again 1").await;
    restart(&mut scene, "v1", false);
    let stalled = becomes(&scene, &run, RunStatus::Stalled).await;
    let reason = stalled.reason.unwrap();
    assert!(names(&reason, "v2", "v1"), "{reason}");
    restart(&mut scene, "v2", true);
    scene.outcome(&run).await.into_result().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_value_that_looks_like_a_pin_is_only_a_value() {
    let Some(scene) = Scene::open(|task| task.agent_version = Some("v1".into())).await else {
        return;
    };
    let run = scene.begin("pure:1\nrecord:1").await;
    scene.outcome(&run).await.into_result().unwrap();
    assert_eq!(scene.count("recorded Ok(true)"), 1, "{:#?}", scene.effects());
    let version = scene.runs().inspect(&run).await.unwrap().agent_version;
    assert_eq!(version.as_deref(), Some("v1"));
}
