//! Tests of runs that continue as new invocations.

use std::time::Duration;

use neuron_types::ApprovalDecisions;
use serde_json::json;

use crate::scene::Scene;

const SCRIPT: &str = "again:1 once:2 again:3,pure:4 fussy:5 again:6";

#[tokio::test(flavor = "multi_thread")]
async fn first_invocation_returns_the_outcome_of_the_whole_run() {
    let Some(scene) = Scene::open(|task| task.continue_after = Some(4)).await else { return };
    let run = scene.begin(SCRIPT).await;
    let outcome = scene.outcome(&run).await;
    assert_eq!(outcome.run_id, run);
    let result = outcome.into_result().unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("done", 6));
    assert_eq!(result.messages.len(), 12);
    // The usage of the whole run: six responses, and the tokens that six tools used themselves.
    assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (210 + 6000, 30));
    assert_eq!((scene.count("model"), scene.count("begin")), (6, 6));
    let rows =
        scene.query("SELECT id FROM sys_invocation WHERE target LIKE 'support/resume%'").await;
    assert!(rows.as_array().unwrap().len() >= 2, "{rows}");
    // Tools see a single run, and each call has a key of its own.
    let mut keys: Vec<String> =
        scene.effects().into_iter().filter(|line| line.starts_with("begin")).collect();
    assert!(keys.iter().all(|line| line.contains(&run)), "{keys:#?}");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn invocation_with_a_limit_of_zero_steps_makes_a_turn() {
    for most in [0, 1] {
        let Some(scene) = Scene::open(|task| task.continue_after = Some(most)).await else {
            return;
        };
        let run = scene.begin("again:1 pure:2").await;
        let result = scene.outcome(&run).await.into_result().unwrap();
        assert_eq!((result.response.as_str(), result.turns), ("done", 3));
        assert_eq!(scene.count("model"), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_of_invocations_survives_kills() {
    let Some(mut scene) = Scene::open(|task| {
        (task.continue_after, task.model_millis) = (Some(4), 100);
    })
    .await
    else {
        return;
    };
    let run = scene.begin(SCRIPT).await;
    for boundary in ["begin once 2", "model 2", "begin again 6"] {
        scene.see(boundary).await;
        scene.kill_service();
    }
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("done", 6));
    assert_eq!(result.usage.output_tokens, 30);
    assert!((6..=9).contains(&scene.count("model")), "{:#?}", scene.effects());
    assert_eq!(scene.count("begin once 2"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_to_the_run_reach_its_latest_invocation() {
    let Some(scene) = Scene::open(|task| task.continue_after = Some(4)).await else { return };
    // The first decisions arrive before the run continues as new for the first time. They are for a later invocation.
    let run = scene.begin("again:1:500 again:2 again:3 wire:4 wire:5").await;
    scene.see("begin again 1").await;
    for call in ["call-3-0", "call-4-0"] {
        let decisions = serde_json::to_value(ApprovalDecisions::new().approve(call)).unwrap();
        scene.signal(&run, "approval", decisions).await;
        if call == "call-3-0" {
            scene.see("begin wire 4").await;
        }
    }
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("done", 6));
    assert_eq!((scene.count("begin wire 4"), scene.count("begin wire 5")), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_sent_before_the_run_continued_is_not_lost() {
    let Some(scene) = Scene::open(|task| task.continue_after = Some(8)).await else { return };
    // The decisions arrive while the run waits for another signal.
    let run = scene.begin("again:1 again:2 again:3 wire:4\nwait:go:60000").await;
    scene.see("begins").await;
    let decisions = json!({"calls": {"call-3-0": {"type": "approve"}}});
    scene.signal(&run, "approval", decisions).await;
    scene.signal(&run, "go", json!("now")).await;
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("done", 5));
    let rows = scene.query("SELECT id FROM sys_invocation WHERE target LIKE 'support/resume%'");
    assert!(!rows.await.as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn journal_grows_linearly_with_the_turns() {
    let Some(scene) = Scene::open(|task| task.model_millis = 0).await else { return };
    let mut bytes = Vec::new();
    for turns in [20, 40, 80] {
        let run = scene.begin(&"pure:1 ".repeat(turns)).await;
        assert_eq!(scene.outcome(&run).await.into_result().unwrap().turns, turns + 1);
        // The last entry is the outcome, which contains the conversation once.
        let sql = format!("SELECT entry_json FROM sys_journal WHERE id = '{run}'");
        let rows = scene.query(&sql).await;
        let rows = rows.as_array().unwrap();
        let sum: usize = rows.iter().map(|row| row.to_string().len()).sum();
        bytes.push(sum);
    }
    assert!(bytes[0] > 1000 && bytes[2] - bytes[1] < 3 * (bytes[1] - bytes[0]), "{bytes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_cancels_its_continued_invocation() {
    let Some(scene) = Scene::open(|task| task.continue_after = Some(4)).await else { return };
    let run = scene.begin("again:1 again:2 again:3 again:4:60000").await;
    scene.see("begin again 4").await;
    scene.cancel(&run).await;
    let (status, body) = scene.end(&run).await;
    assert_eq!(status, 409, "{body}");
    scene.see("cancelled again 4").await;
    // The scheduled removal of the register's entry is still pending.
    let all = "SELECT id FROM sys_invocation WHERE status != 'completed' \
               AND target_handler_name != 'forget'";
    for _ in 0..500 {
        if scene.query(all).await == json!([]) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{}", scene.query(all).await);
}
