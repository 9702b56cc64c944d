//! Tests with processes that are killed during a run.

use std::time::Duration;

use neuron_durable_restate::RunOutcome;
use neuron_types::AgentResult;

use crate::scene::Scene;

/// The model's script, in the format of the module `model`. The first three responses call tools, and the fourth
/// response ends the run. The tool `fussy` asks the model for a retry. The run takes about two seconds.
const SCRIPT: &str = "once:1:150 again:2:150,once:3:150,pure:4:150 fussy:5:50";

/// Checks the result and the effects of a run whose process was killed `kills` times. `context` is added to failure
/// messages.
#[track_caller]
fn check(scene: &Scene, result: &AgentResult, kills: usize, context: &str) {
    let context = format!("{context}: {:#?}", scene.effects());
    assert_eq!((result.response.as_str(), result.turns), ("done", 4), "{context}");
    assert_eq!(result.messages.len(), 8, "{context}");
    assert_eq!(result.usage.output_tokens, 20, "{context}");
    let model = scene.count("model");
    assert!((4..=4 + kills).contains(&model), "{model} calls of the model, {context}");
    // A kill between the intent and the start leaves a call that never began. Its outcome is unknown all the same.
    let least = usize::from(kills == 0);
    for once in ["begin once 1", "begin once 3"] {
        assert!((least..=1).contains(&scene.count(once)), "{once}, {context}");
    }
    for again in ["begin again 2", "begin pure 4", "begin fussy 5"] {
        let keys: Vec<String> =
            scene.effects().into_iter().filter(|line| line.starts_with(again)).collect();
        assert!((1..=1 + kills).contains(&keys.len()), "{again}, {context}");
        assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "one key: {context}");
    }
    // An interrupted call has an unknown outcome in the conversation. So has a call that had ended, if its result was
    // lost.
    let messages = serde_json::to_string(&result.messages).unwrap();
    let mut cut_off = 0;
    for once in [1, 3] {
        if messages.contains(&format!("once {once} with")) {
            assert_eq!(scene.count(&format!("end once {once}")), 1, "{context}\n{messages}");
        } else {
            cut_off += 1;
        }
    }
    let unknown = messages.matches("The outcome of this call of `once` is unknown").count();
    assert_eq!(unknown, cut_off, "{context}\n{messages}");
    assert!(cut_off <= kills, "{context}\n{messages}");
}

/// Prefixes of log lines. The test kills the service after each of these lines.
const BOUNDARIES: [&str; 9] = [
    "model 0",
    "begin once 1",
    "end once 1",
    "model 1",
    "begin once 3",
    "end pure 4",
    "model 2",
    "begin fussy 5",
    "model 3",
];

#[tokio::test(flavor = "multi_thread")]
async fn service_killed_at_a_boundary_resumes() {
    let Some(mut scene) = Scene::open(|task| task.model_millis = 100).await else { return };
    for boundary in BOUNDARIES {
        scene.forget_effects();
        let run = scene.begin(SCRIPT).await;
        scene.see(boundary).await;
        scene.kill_service();
        let result = scene.outcome(&run).await.into_result().unwrap();
        check(&scene, &result, 1, boundary);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_killed_at_random_moments_resumes() {
    let Some(mut scene) = Scene::open(|task| task.model_millis = 100).await else { return };
    let mut random = neuron_testing_seed();
    for round in 0..8 {
        scene.forget_effects();
        let run = scene.begin(SCRIPT).await;
        let mut waits = Vec::new();
        for _ in 0..=round % 3 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let wait = (random >> 33) % 900;
            waits.push(wait);
            tokio::time::sleep(Duration::from_millis(wait)).await;
            scene.kill_service();
        }
        let result = scene.outcome(&run).await.into_result().unwrap();
        check(&scene, &result, waits.len(), &format!("killed after {waits:?} ms"));
    }
}

/// Returns a random seed, so that each run of the test kills processes at other moments. A failing test prints these
/// moments.
fn neuron_testing_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_server_resumes_after_restart() {
    let Some(scene) = Scene::open(|task| task.model_millis = 100).await else { return };
    for boundary in ["begin once 1", "model 2", "begin again 2"] {
        scene.forget_effects();
        let run = scene.begin(SCRIPT).await;
        scene.see(boundary).await;
        scene.server.kill().unwrap();
        scene.server.restart().unwrap();
        let result = scene.outcome(&run).await.into_result().unwrap();
        check(&scene, &result, 1, &format!("server killed at {boundary}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_outcome_after_a_crash_ends_the_run_if_configured() {
    let Some(mut scene) = Scene::open(|task| task.fail_unknown = true).await else { return };
    let run = scene.begin("once:1:5000").await;
    scene.see("begin once 1").await;
    scene.kill_service();
    let outcome: RunOutcome = scene.outcome(&run).await;
    let error = outcome.into_result().unwrap_err();
    assert_eq!(error.kind, "Durable");
    assert!(error.text.contains("the outcome of a call of `once` is unknown"), "{error}");
    assert_eq!(scene.count("begin once 1"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_that_returned_before_a_crash_keeps_its_result() {
    let Some(mut scene) = Scene::open(|task| task.model_millis = 400).await else { return };
    let run = scene.begin("once:1").await;
    // The second model call begins after the tool's result was journaled.
    scene.see("model 1").await;
    scene.kill_service();
    let result = scene.outcome(&run).await.into_result().unwrap();
    let messages = serde_json::to_string(&result.messages).unwrap();
    assert!(messages.contains("once 1 with"), "{messages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn panicking_model_is_called_once() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("pure:1 panic").await;
    let error = scene.outcome(&run).await.into_result().unwrap_err();
    assert_eq!((error.kind.as_str(), scene.count("model 1")), ("Provider", 1), "{error}");
}
