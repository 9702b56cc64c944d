//! Tests of signals, cancellation, changed code and size limits.

use std::time::Duration;

use neuron_durable::RunStatus;
use serde_json::json;

use crate::http;
use crate::operating::becomes;
use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn signals_are_received_early_in_time_or_not_before_the_timeout() {
    let Some(mut scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("pure:1\nsleep:700 wait:go:60000 wait:go:60000 wait:other:60000").await;
    scene.see("begins").await;
    // Sent before any wait, and in another order than the waits. The run waits for no signal named `nobody`.
    scene.signal(&run, "other", json!("o")).await;
    scene.signal(&run, "go", json!("a")).await;
    scene.signal(&run, "nobody", json!({})).await;
    scene.see("go gave Some(\"a\")").await;
    scene.kill_service();
    scene.signal(&run, "go", json!("b")).await;
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert_eq!(result.response, "done");
    let effects = scene.effects();
    let gave = |text: &str| effects.iter().any(|line| line.as_str() == text);
    assert!(gave("go gave Some(\"b\")") && gave("other gave Some(\"o\")"), "{effects:#?}");

    let run = scene.begin("pure:1\nwait:go:300").await;
    scene.outcome(&run).await.into_result().unwrap();
    scene.see("go gave None").await;

    scene.forget_effects();
    let run = scene.begin("pure:1\nwait:go:300000000000000000").await;
    scene.see("begins").await;
    scene.cancel(&run).await;
    assert_eq!(scene.end(&run).await.0, 409);

    let run = scene.begin("pure:1\nwait:go:60000").await;
    scene.signal(&run, "go", json!(7)).await;
    let error = scene.outcome(&run).await.into_result().unwrap_err();
    assert_eq!(error.kind, "Durable");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_sleep_ends_the_run_before_the_next_step() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("pure:1\nsleep:600000").await;
    scene.see("begins").await;
    scene.cancel(&run).await;
    assert_eq!(scene.end(&run).await.0, 409);
    assert_eq!(scene.count("model"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clock_is_the_same_on_replay_and_advances_with_sleeps() {
    let Some(mut scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("pure:1\nnow sleep:500 now wait:go:60000 now").await;
    let slept = async {
        while scene.count("now ") < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // After the sleep the run waits for the signal.
    tokio::time::timeout(Duration::from_secs(60), slept).await.expect("it sleeps half a second");
    scene.kill_service();
    scene.signal(&run, "go", json!("!")).await;
    scene.outcome(&run).await.into_result().unwrap();
    let effects = scene.effects();
    let times: Vec<i64> =
        effects.iter().filter_map(|line| line.strip_prefix("now ")?.parse().ok()).collect();
    // Two times were read before the kill, and three after it.
    assert_eq!(times.len(), 5, "{effects:#?}");
    assert_eq!(times[..2], times[2..4]);
    assert!(times[1] >= times[0] + 500 && times[4] > times[1], "{times:?}");
    let replaying: Vec<&String> =
        effects.iter().filter(|line| line.starts_with("begins")).collect();
    assert_eq!(replaying, ["begins, a replay: false", "begins, a replay: true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_ends_immediately_and_cancels_its_tools() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("again:1:60000,once:2:60000").await;
    scene.see("begin again 1").await;
    scene.see("begin once 2").await;
    scene.cancel(&run).await;
    let (status, body) = scene.end(&run).await;
    assert_eq!(status, 409, "{body}");
    scene.see("cancelled again 1").await;
    scene.see("cancelled once 2").await;
    assert_eq!(scene.count("model"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_cancels_tools_of_its_nested_agent() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("helper:1").await;
    scene.see("begin again 1").await;
    scene.cancel(&run).await;
    assert_eq!(scene.end(&run).await.0, 409);
    scene.see("cancelled again 1").await;
    assert_eq!(scene.count("end again 1"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_or_cancelled_tool_does_not_cancel_the_run() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    for how in ["kill", "cancel"] {
        scene.forget_effects();
        let run = scene.begin("once:1:6000").await;
        scene.see("begin once 1").await;
        let tool = "SELECT id FROM sys_invocation WHERE target LIKE 'support/tool%' \
                    AND status != 'completed'";
        let tool = scene.query(tool).await[0]["id"].as_str().unwrap().to_owned();
        let path = format!("/invocations/{tool}/{how}");
        let answer = http::send(&scene.server.admin_url(), "PATCH", &path, None).await.unwrap();
        assert!(answer.0 < 300, "{answer:?}");
        let outcome = scene.outcome(&run).await;
        if how == "kill" {
            assert_eq!(outcome.into_result().unwrap_err().kind, "Durable");
        }
        assert_eq!(scene.count("begin once 1"), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_cancelled_in_a_model_call_ends_after_the_response() {
    let Some(scene) = Scene::open(|task| task.model_millis = 4000).await else { return };
    let run = scene.begin("again:1").await;
    scene.see("model 0").await;
    scene.cancel(&run).await;
    let (status, body) = scene.end(&run).await;
    assert_eq!(status, 409, "{body}");
    assert_eq!((scene.count("model"), scene.count("begin")), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_code_stalls_a_run_until_the_change_is_undone() {
    changed_code(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_code_stalls_a_run_until_changes_are_allowed() {
    changed_code(true).await;
}

async fn changed_code(may_go_on: bool) {
    let Some(mut scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("again:1:6000").await;
    scene.see("begin again 1").await;
    scene.stop_service();
    scene.task.system_prompt = "Be verbose.".into();
    scene.start_service();
    let failure = format!("SELECT last_failure FROM sys_invocation WHERE id = '{run}'");
    let mut text = String::new();
    for _ in 0..2400 {
        text = scene.query(&failure).await.to_string();
        if text.contains("replay differs") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    for words in ["expected llm/0 with system", "Be brief.", "got system", "Be verbose."] {
        assert!(text.contains(words), "{text}");
    }
    scene.stop_service();
    match may_go_on {
        true => scene.task.changed_agent_goes_on = true,
        false => scene.task.system_prompt = "Be brief.".into(),
    }
    scene.start_service();
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert_eq!(result.response, "done");
    assert_eq!(scene.count("model"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_resumes_after_a_crash_in_another_directory_and_environment() {
    let Some(mut scene) = Scene::open(|task| {
        task.environment.insert("ALLOWED".into(), "first".into());
        task.environment.insert("SECRET_KEY".into(), "hunter2".into());
    })
    .await
    else {
        return;
    };
    let run = scene.begin("again:1:1000 pure:2").await;
    scene.see("begin again 1").await;
    scene.stop_service();
    scene.task.cwd = scene.folder();
    scene.task.environment.insert("ALLOWED".into(), "second".into());
    scene.start_service();
    let result = scene.outcome(&run).await.into_result().unwrap();
    let messages = serde_json::to_string(&result.messages).unwrap();
    assert!(messages.contains(r#"again 1 with [\"ALLOWED\"]"#), "{messages}");
    let journal = scene.query("SELECT * FROM sys_journal").await.to_string();
    assert!(journal.contains("tools/0"), "{journal}");
    assert!(!journal.contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn response_of_forty_megabytes_ends_the_run_after_one_call() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("answer:41943040").await;
    let error = scene.outcome(&run).await.into_result().unwrap_err();
    assert_eq!(error.kind, "Provider");
    assert!(error.text.contains("where a record may have 1048576"), "{error}");
    assert_eq!(scene.count("model"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_tool_result_is_an_error_and_is_not_repeated() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("huge:1 pure:2").await;
    let result = scene.outcome(&run).await.into_result();
    let text = format!("{result:?}");
    assert!(text.contains("the result of `huge`"), "{text}");
    assert_eq!(scene.count("begin huge"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_long_recorded_value_is_an_error_on_replay_too() {
    let Some(mut scene) = Scene::open(|_| ()).await else { return };
    let run = scene.begin("pure:1\nrecord:2097152 wait:go:60000").await;
    scene.see("recorded").await;
    scene.kill_service();
    scene.signal(&run, "go", json!("!")).await;
    scene.outcome(&run).await.into_result().unwrap();
    let effects = scene.effects();
    let recorded: Vec<_> = effects.iter().filter(|line| line.starts_with("recorded")).collect();
    assert_eq!(recorded.len(), 2, "{effects:#?}");
    assert_eq!(recorded[0], recorded[1]);
    assert!(recorded[0].contains("where a record may have 1048576"), "{recorded:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_after_an_outage_is_measured_from_its_own_start() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    for wait in ["wait:go:60000", "sleep:60000"] {
        scene.forget_effects();
        let go_on = scene.folder().join(&wait[..4]);
        let run = scene.begin(&format!("pure:1\npanic:{} {wait}", go_on.display())).await;
        scene.see("begins").await;
        let outage_ends = chrono::Utc::now().timestamp_millis();
        std::fs::write(go_on, "").unwrap();
        let waits = becomes(&scene, &run, RunStatus::Waiting).await.waits_for.unwrap();
        assert!(waits.since.unwrap().timestamp_millis() >= outage_ends, "{outage_ends} {waits:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn step_longer_than_the_inactivity_timeout_is_not_interrupted() {
    // By default Restate asks a silent invocation after a minute.
    let asks = Some(Duration::from_millis(500));
    let Some(scene) = Scene::open(|task| {
        (task.aside_after, task.model_millis) = (asks, 1500);
    })
    .await
    else {
        return;
    };
    let run = scene.begin("once:1:2500").await;
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert_eq!(result.response, "done");
    assert_eq!((scene.count("model"), scene.count("begin once 1")), (2, 1));
    assert!(format!("{result:?}").contains("once 1 with"), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn step_longer_than_longest_step_is_interrupted_and_not_repeated() {
    let Some(scene) = Scene::open(|task| {
        // Long enough for all other steps, even on a slow machine.
        task.aside_after = Some(Duration::from_secs(2));
        task.longest_step = Duration::from_secs(2);
    })
    .await
    else {
        return;
    };
    let run = scene.begin("once:1:60000").await;
    let result = scene.outcome(&run).await.into_result().unwrap();
    assert_eq!(scene.count("begin once 1"), 1);
    let text = format!("{result:?}");
    assert!(text.contains("The outcome of this call of `once` is unknown"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn internal_handlers_are_not_public() {
    let Some(scene) = Scene::open(|_| ()).await else { return };
    for path in [
        "/support/tool",
        "/support/resume",
        "/support.waiting/run/show",
        "/support.waiting/run/end",
        "/support.waiting/run/forget",
    ] {
        let (status, body) = scene.ask("POST", path, Some(&json!({}))).await;
        assert!((400..500).contains(&status), "{path}: {status} {body}");
        assert!(body.to_string().contains("not public"), "{path}: {body}");
    }
    let (status, body) = scene.ask("POST", "/support/run", Some(&json!({"messages": 1}))).await;
    assert_eq!(status, 400, "{body}");
}
