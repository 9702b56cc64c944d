//! Tests of the operations on runs.

use std::time::Duration;

use neuron_durable::{DurableRuns, RunStatus, RunSummary, RunsError, WaitEvent};
use neuron_durable_restate::RestateRuns;
use neuron_testkit::engines::RestateServer;
use serde_json::json;

use crate::http;
use crate::scene::Scene;

/// Waits until a run has this status, and returns its summary.
pub(crate) async fn becomes(scene: &Scene, run: &str, status: RunStatus) -> RunSummary {
    let runs = scene.runs();
    for _ in 0..1000 {
        let summary = runs.inspect(run).await.unwrap();
        if summary.status == status {
            return summary;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{run} does not become {status}: {:?}", runs.inspect(run).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_with_their_states_and_waits() {
    let Some(scene) = Scene::open(|task| task.continue_after = Some(4)).await else { return };
    let runs = scene.runs();
    let continued = scene.begin("again:1 pure:2 again:3").await;
    scene.outcome(&continued).await.into_result().unwrap();
    let approval = scene.begin("wire:100").await;
    let signal = scene.begin("pure:1\nwait:go:60000").await;
    let time = scene.begin("pure:1\nsleep:60000").await;
    let failed = scene.begin("pure:1\nwait:go:60000").await;
    becomes(&scene, &failed, RunStatus::Waiting).await;
    runs.signal(&failed, "go", json!(7)).await.unwrap();
    becomes(&scene, &failed, RunStatus::Failed).await;
    let cancelled = scene.begin("pure:1\nsleep:60000").await;
    becomes(&scene, &cancelled, RunStatus::Waiting).await;
    runs.cancel(&cancelled).await.unwrap();
    becomes(&scene, &cancelled, RunStatus::Cancelled).await;
    let busy = scene.begin("again:7:60000").await;
    scene.see("begin again 7").await;
    for run in [&approval, &signal, &time] {
        becomes(&scene, run, RunStatus::Waiting).await;
    }

    let listed = runs.list().await.unwrap();
    use RunStatus::{Cancelled, Done, Failed, Running, Waiting};
    let ids = [&continued, &approval, &signal, &time, &failed, &cancelled, &busy];
    let states = [Done, Waiting, Waiting, Waiting, Failed, Cancelled, Running];
    let find = |id: &str| listed.iter().find(|run| run.id == id).unwrap();
    for (id, status) in ids.into_iter().zip(states) {
        let run = find(id);
        assert_eq!(run.status, status, "{run:?}");
        assert!(run.created_at <= run.changed_at, "{run:?}");
    }
    assert_eq!(listed.len(), ids.len(), "{listed:#?}");
    // Several runs may have begun in the same millisecond.
    assert!(listed.is_sorted_by_key(|run| run.created_at), "{listed:#?}");
    assert_eq!(listed.first().unwrap().id, continued);
    assert!(find(&continued).execution >= Some(2), "{listed:#?}");
    assert_eq!(find(&continued).usage.as_ref().unwrap().output_tokens, 20);
    assert!(
        find(&failed).reason.as_ref().unwrap().contains("expected a string"),
        "{:?}",
        find(&failed)
    );

    let waits = |id: &str| find(id).waits_for.clone().unwrap();
    let WaitEvent::Approval { signal: Some(name), pending: Some(pending) } = waits(&approval).event
    else {
        panic!("{:?}", waits(&approval));
    };
    assert_eq!((name.as_str(), pending.calls[0].call.name.as_str()), ("approval", "wire"));
    assert_eq!(waits(&signal).event, WaitEvent::Signal { name: "go".into() });
    assert_eq!(waits(&time).event, WaitEvent::Time);
    for (id, seconds) in [(&approval, 600), (&signal, 60), (&time, 60)] {
        let wait = waits(id);
        let length = wait.deadline.unwrap() - wait.since.unwrap();
        assert_eq!(length.num_seconds(), seconds, "{wait:?}");
    }
    assert_eq!(runs.inspect(&signal).await.unwrap(), *find(&signal));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_unfinished_runs_of_the_service_accept_signals_and_cancellation() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let runs = scene.runs();
    let done = scene.begin("pure:1").await;
    scene.outcome(&done).await;
    becomes(&scene, &done, RunStatus::Done).await;
    for error in [
        runs.signal(&done, "go", json!(1)).await.unwrap_err(),
        runs.cancel(&done).await.unwrap_err(),
    ] {
        assert!(matches!(&error, RunsError::Ended { id, .. } if *id == done), "{error:?}");
        assert!(error.to_string().contains("it ended with a result at 20"), "{error}");
    }
    let tool = "SELECT id FROM sys_invocation WHERE target LIKE 'support/tool%'";
    let tool = scene.query(tool).await[0]["id"].as_str().unwrap().to_owned();
    let unknown = "inv_1hFWkw8HKofS2gSltOBh3JfiWAhXbmyIOm";
    for id in [&*tool, unknown, "", "nonsense", "inv_1' OR '1'='1", "inv_1"] {
        // The server returns an error for an id that it cannot parse.
        let results = [
            runs.inspect(id).await.map(drop),
            runs.signal(id, "go", json!(1)).await,
            runs.cancel(id).await,
            runs.revive(id, Default::default()).await.map(drop),
        ];
        for result in results {
            let error = result.unwrap_err();
            let is_unreadable = id == "inv_1" && matches!(error, RunsError::Engine(_));
            assert!(
                is_unreadable || matches!(error, RunsError::NotFound { .. }),
                "{id}: {error:?}"
            );
        }
    }
    let other = RestateRuns::new("other", scene.server.ingress_url(), scene.server.admin_url());
    assert_eq!(other.list().await.unwrap(), []);
    assert!(matches!(other.cancel(&done).await, Err(RunsError::NotFound { .. })));
    let nowhere = RestateRuns::new("support", "http://127.0.0.1:1", "http://127.0.0.1:1/");
    assert!(matches!(nowhere.list().await, Err(RunsError::Engine(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_run_is_stalled_and_continues_when_resumed() {
    let attempts = ("RESTATE_DEFAULT_RETRY_POLICY__MAX_ATTEMPTS", "4");
    let Some(server) = RestateServer::or_skip_with(&[attempts]) else { return };
    let mut scene = Scene::on(server, |_| ()).await;
    let run = scene.begin("wire:1").await;
    becomes(&scene, &run, RunStatus::Waiting).await;
    scene.stop_service();
    scene.task.system_prompt = "Be verbose.".into();
    scene.start_service();
    let resume = format!("/invocations/{run}/resume");
    let paused = async {
        loop {
            let summary = scene.runs().inspect(&run).await.unwrap();
            if let Some(reason) = summary.reason.filter(|reason| reason.contains(&resume)) {
                break (summary.status, reason);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let paused = tokio::time::timeout(Duration::from_secs(30), paused).await;
    let (status, reason) = paused.expect("it is paused");
    assert_eq!(status, RunStatus::Stalled);
    assert!(reason.contains("Be brief.") && reason.contains("Be verbose."), "{reason}");
    scene.stop_service();
    scene.task.system_prompt = "Be brief.".into();
    scene.start_service();
    let (status, body) =
        http::send(&scene.server.admin_url(), "PATCH", &resume, None).await.unwrap();
    assert!(status < 300, "{status} {body}");
    becomes(&scene, &run, RunStatus::Waiting).await;
    let decisions = json!({"calls": {"call-0-0": {"type": "approve"}}});
    scene.runs().signal(&run, "approval", decisions).await.unwrap();
    becomes(&scene, &run, RunStatus::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_with_a_changed_nested_agent_is_stalled() {
    let Some(mut scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("helper:1").await;
    scene.see("begin again 1").await;
    assert_eq!(scene.runs().inspect(&run).await.unwrap().status, RunStatus::Running);
    scene.stop_service();
    scene.task.helper_prompt = "You hinder.".into();
    scene.start_service();
    let stalled = becomes(&scene, &run, RunStatus::Stalled).await;
    let reason = stalled.reason.unwrap();
    assert!(reason.contains("You help.") && reason.contains("You hinder."), "{reason}");
    assert_eq!(scene.runs().list().await.unwrap()[0].status, RunStatus::Stalled);
    scene.stop_service();
    scene.task.helper_prompt = "You help.".into();
    scene.start_service();
    becomes(&scene, &run, RunStatus::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_is_stalled_by_a_changed_agent_but_not_by_a_lost_process() {
    let Some(mut scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("again:1:4000").await;
    scene.see("begin again 1").await;
    scene.stop_service();
    let gone = async {
        loop {
            let summary = scene.runs().inspect(&run).await.unwrap();
            assert_eq!(summary.status, RunStatus::Running, "{summary:?}");
            if let Some(reason) = summary.reason {
                break reason;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reason = tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    assert!(reason.contains("error"), "{reason}");
    scene.task.system_prompt = "Be verbose.".into();
    scene.start_service();
    let stalled = becomes(&scene, &run, RunStatus::Stalled).await;
    let reason = stalled.reason.unwrap();
    assert!(reason.contains("Be brief.") && reason.contains("Be verbose."), "{reason}");
    scene.stop_service();
    scene.task.system_prompt = "Be brief.".into();
    scene.start_service();
    becomes(&scene, &run, RunStatus::Done).await;
}
