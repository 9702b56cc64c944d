//! Tests of processes that are stopped, and resume after another process has taken over.

use std::time::Duration;

use neuron_testkit::engines::RestateServer;
use neuron_types::AgentResult;

use crate::model::Effects;
use crate::proxy::Proxy;
use crate::scene::Scene;

/// Runs a scripted agent while its service process is stopped with `SIGSTOP`. Another process takes over and ends the
/// run. Then resumes the stopped process, and checks that it has no further effects.
///
/// The process is stopped when the log of effects has a line that begins with `line`. `script` is the script of the
/// model, and `model_millis` the delay of each model response in milliseconds. Returns the result of the run, or `None`
/// if no server is available.
async fn stopped_at(line: &str, script: &str, model_millis: u64) -> Option<(Scene, AgentResult)> {
    let server = RestateServer::or_skip_with(&[
        ("RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL", "1s"),
        ("RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_TIMEOUT", "3s"),
    ])?;
    let change = |task: &mut crate::service::Task| {
        (task.lease, task.model_millis) = (Duration::from_secs(2), model_millis);
    };
    let scene = Scene::on(server, change).await;
    let first = scene.service.as_ref().unwrap();
    let mut other = scene.task.clone();
    other.port = 0;
    let second = other.start();
    let proxy = Proxy::start(first.port).await;
    scene.server.register(&format!("http://127.0.0.1:{}", proxy.port)).await.unwrap();

    let run = scene.begin(script).await;
    scene.see(line).await;
    first.signal("STOP");
    proxy.switch(second.port);
    let result = scene.outcome(&run).await.into_result().unwrap();
    let before = scene.effects();
    // After the resumption the timers of the process are due, and its connection still seems to be open.
    first.signal("CONT");
    let effects = Effects(scene.task.effects.clone());
    let beats = first.beats(&effects);
    while first.beats(&effects) < beats + 40 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(scene.effects(), before, "the process that was stopped goes on");
    Some((scene, result))
}

#[tokio::test(flavor = "multi_thread")]
async fn process_stopped_in_an_at_most_once_call_drops_the_call() {
    let stopped = stopped_at("begin once 1", "once:1:1500 once:2", 30).await;
    let Some((scene, result)) = stopped else { return };
    let text = format!("{result:?}");
    assert!(text.contains("The outcome of this call of `once` is unknown"), "{text}");
    for (line, times) in [("begin once 1", 1), ("end once 1", 0), ("begin once 2", 1), ("model", 3)]
    {
        assert_eq!(scene.count(line), times, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn process_stopped_between_two_attempts_does_not_start_the_next() {
    let stopped = stopped_at("end flaky 1", "flaky:1", 30).await;
    let Some((scene, result)) = stopped else { return };
    assert!(format!("{result:?}").contains("flaky 1 with"), "{result:?}");
    assert_eq!(scene.count("begin flaky 1"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn process_stopped_in_a_model_call_starts_no_call_or_tool() {
    let stopped = stopped_at("model 0", "once:1", 1500).await;
    let Some((scene, result)) = stopped else { return };
    assert!(format!("{result:?}").contains("once 1 with"), "{result:?}");
    for (line, times) in [("model 0", 2), ("begin once 1", 1), ("model 1", 1)] {
        assert_eq!(scene.count(line), times, "{line}");
    }
}
