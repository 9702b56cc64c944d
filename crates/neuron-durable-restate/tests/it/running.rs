//! Tests of runs without a crash.

use serde_json::json;

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn run_returns_its_result_and_runs_each_step_once() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("once:1 again:2,pure:3,once:4 fussy:5").await;
    let outcome = scene.outcome(&run).await;
    assert_eq!(outcome.run_id, run);
    let result = outcome.into_result().unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("done", 4));
    // Four responses, and the tokens that five tools used themselves.
    assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (100 + 5000, 20));
    for (line, times) in
        [("model", 4), ("begin once", 2), ("begin again", 1), ("begin pure", 1), ("begin fussy", 1)]
    {
        assert_eq!(scene.count(line), times, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deltas_are_sent_live_and_not_repeated_on_replay() {
    let Some(mut scene) = Scene::open(|task| task.streams = true).await else { return };
    let run = scene.begin("again:1 again:2:1500").await;
    scene.see("begin again 2").await;
    let before = scene.count("delta");
    assert_eq!((scene.count("delta turn 0"), scene.count("delta turn 1"), before), (1, 1, 2));
    scene.kill_service();
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert!(result.response.ends_with("done"), "{result:?}");
    assert_eq!((scene.count("delta"), scene.count("model")), (3, 3), "{:#?}", scene.effects());
}

#[tokio::test(flavor = "multi_thread")]
async fn streaming_agent_can_be_cancelled_and_continue_as_new() {
    let Some(scene) = Scene::open(|task| {
        (task.streams, task.continue_after) = (true, Some(4));
    })
    .await
    else {
        return;
    };
    let run = scene.begin("again:1 again:2 again:3").await;
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert_eq!(result.turns, 4);
    scene.forget_effects();
    let run = scene.begin("again:1 again:2:60000").await;
    scene.see("begin again 2").await;
    scene.cancel(&run).await;
    assert_eq!(scene.end(&run).await.0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_of_the_agent_is_retried_without_harm_to_other_runs() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let other = scene.begin("once:1:1500").await;
    scene.see("begin once 1").await;
    let file = scene.folder().join("panicked");
    let run = scene.begin(&format!("again:2\npanic:{}", file.display())).await;
    let failure = format!("SELECT last_failure FROM sys_invocation WHERE id = '{run}'");
    while !scene.query(&failure).await.to_string().contains("the agent panicked") {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    std::fs::write(&file, "").unwrap();
    assert_eq!(scene.outcome(&run).await.into_result().unwrap().turns, 2);
    let other = scene.outcome(&other).await.into_result().unwrap();
    assert!(format!("{other:?}").contains("once 1 with"), "{other:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_to_an_ended_or_invalid_run_is_refused() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let ended = scene.begin("pure:1").await;
    scene.outcome(&ended).await;
    for run in [ended.as_str(), "", "nonsense", "inv_1"] {
        let body = json!({"run_id": run, "name": "go", "value": 1});
        let ask = scene.ask("POST", "/support/signal", Some(&body));
        let answer = tokio::time::timeout(std::time::Duration::from_secs(20), ask).await;
        let (status, body) = answer.unwrap_or_else(|_| panic!("`{run}` is tried for ever"));
        let expected = if run == ended { 410 } else { 400 };
        assert_eq!(status, expected, "{run}: {body}");
    }
}
