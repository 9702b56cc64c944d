//! Tests of runs whose agent code changed. Some tests use a server. Other tests replay the committed histories in
//! `tests/histories`.
//!
//! The recorded runs are the crash scenario of `neuron-conformance-durable`, with local model calls or with activities,
//! and a run that continued as new.
//!
//! The histories test that a release can continue the runs of the previous release. Newly written histories do not test
//! this. Write them again only after an intended incompatible change, with `NEURON_WRITE_HISTORIES=1 cargo test -p
//! neuron-durable-temporal`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_conformance_durable::{EffectLog, Scenario, run_with_signals};
use neuron_durable::{ChangedAgent, DurableRuns, RunStatus, RunSummary};
use neuron_durable_temporal::{ModelCalls, TemporalError, TemporalOptions, replay_history};
use neuron_loop::ApprovalSignal;
use neuron_tool::ToolRegistry;
use neuron_types::{ApprovalDecisions, PermissionDecision, ToolEffect, ToolOutput};
use serde_json::json;

use crate::crash::Engine;
use crate::host::{
    Agent, Does, Model, TestContext, answer, call, connect, done, durable, options, text, turns,
};
use crate::operating::inspected;

fn histories() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/histories")
}

/// Reads a committed history from its file. With `NEURON_WRITE_HISTORIES=1`, first replaces the history by the result of
/// `write`.
async fn history(name: &str, write: impl AsyncFnOnce() -> Vec<u8>) -> Vec<u8> {
    let file = histories().join(format!("{name}.json"));
    let writes = std::env::var("NEURON_WRITE_HISTORIES").is_ok_and(|write| write == "1");
    if writes {
        let history = write().await;
        std::fs::create_dir_all(histories()).unwrap();
        std::fs::write(&file, history).unwrap();
    }
    std::fs::read(&file).unwrap()
}

/// Runs the crash scenario of the durable conformance suite on a server, and returns the history of the run.
async fn run_scenario(name: &str, options: TemporalOptions) -> Vec<u8> {
    let bench = TestContext::new(name, &options).await.expect("a server, to write histories");
    let directory = tempfile::tempdir().unwrap();
    let log = EffectLog::new(directory.path().join(&bench.queue));
    let scenario = Scenario::crash();
    let (model, agent) = (scenario.provider(&log), scenario.agent(&log));
    let _worker = bench.serve_with(model, scenario.tools(&log), agent, &options);
    let engine = Engine { client: connect(&bench.address).await };
    run_with_signals(&engine, name, &scenario, &log).await.unwrap();
    bench.runs.get(name).history().await.unwrap()
}

fn echo() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Does::new("echo", ToolEffect::Pure, |input, _| async move {
        Ok(ToolOutput::text(input.to_string()))
    }));
    tools
}

fn echoes() -> Model {
    Model::new(|request| {
        let turn = turns(request);
        Ok(match turn < 5 {
            true => answer(turn, vec![call(&format!("c{turn}"), "echo", json!({"n": turn}))]),
            false => answer(turn, vec![text("done")]),
        })
    })
}

async fn run_echoes(name: &str, options: TemporalOptions) -> Vec<u8> {
    let bench = TestContext::new(name, &options).await.expect("a server, to write histories");
    let _worker = bench.serve(echoes(), echo, Agent::new(echo), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    done(&run).await;
    run.history().await.unwrap()
}

#[track_caller]
fn says_nothing_of_the_machine(history: &[u8]) {
    let history = std::str::from_utf8(history).unwrap();
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let mut words = vec!["/home", "/root", "/tmp", "/Users", env!("CARGO_MANIFEST_DIR")];
    words.extend(Some(host.trim()).filter(|host| host.len() > 3));
    for word in words {
        assert!(!history.contains(word), "the history holds {word}");
    }
}

#[track_caller]
fn differs(replayed: Result<(), TemporalError>, words: &[&str]) {
    match replayed {
        Err(TemporalError::NonDeterminism(text)) => {
            for word in words {
                assert!(text.contains(word), "{text}");
            }
        }
        other => panic!("{other:?}"),
    }
}

async fn replays(name: &str, options: TemporalOptions) {
    let history = history(name, async || run_scenario(name, options.clone()).await).await;
    says_nothing_of_the_machine(&history);
    let directory = tempfile::tempdir().unwrap();
    let log = EffectLog::new(directory.path().join("log"));
    let scenario = Scenario::crash();
    replay_history(scenario.agent(&log), options.clone(), &history).await.unwrap();
    assert_eq!(log.last_end(), Some(("Ok".into(), "All is done. [answer 4]".into())));
    assert_eq!(log.model_calls() + log.starts_of("pay"), 0);

    let changed = scenario.with_changed_code().agent(&log);
    let words = ["llm/0 with", "system: ", "got system: "];
    differs(replay_history(changed, options.clone(), &history).await, &words);
    let other = match options_of(name) {
        ModelCalls::Local => ModelCalls::Activity,
        _ => ModelCalls::Local,
    };
    let agent = scenario.agent(&log);
    differs(replay_history(agent, options.model_calls(other), &history).await, &["TMPRL1100"]);
}

fn options_of(name: &str) -> ModelCalls {
    if name.ends_with("local") { ModelCalls::Local } else { ModelCalls::Activity }
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_history_with_local_calls_replays() {
    replays("scenario-local", options()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_history_with_activities_replays() {
    let options = options().model_calls(ModelCalls::Activity);
    replays("scenario-activity", options).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_history_of_a_continued_run_replays() {
    let options = TemporalOptions::from(durable().continue_after(5));
    let name = "continued";
    let history = history(name, async || run_echoes(name, options.clone()).await).await;
    says_nothing_of_the_machine(&history);
    replay_history(Agent::new(echo), options.clone(), &history).await.unwrap();
    let mut changed = Agent::new(echo);
    changed.config.system_prompt = "Be quick.".into();
    differs(replay_history(changed, options.clone(), &history).await, &["got system: {"]);
    let without = replay_history(Agent::new(ToolRegistry::new), options, &history);
    differs(without.await, &["got no tools.echo.description"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_of_an_invalid_history_is_an_error() {
    for bytes in [&b""[..], b"{}", b"[]", b"{\"events\":[]}"] {
        let replayed = replay_history(Agent::new(echo), options(), bytes).await;
        assert!(matches!(replayed, Err(TemporalError::Other(_))), "{replayed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_stalls_under_changed_code_and_continues_with_the_old_code() {
    stands_still_and_goes_on("old", options()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_stalls_under_changed_code_and_continues_when_allowed() {
    stands_still_and_goes_on("new", durable().changed_agent(ChangedAgent::GoOn).into()).await;
}

async fn stands_still_and_goes_on(last_prompt: &str, last_options: TemporalOptions) {
    let options = options();
    let Some(bench) = TestContext::new(&format!("changed-{last_prompt}"), &options).await else {
        return;
    };
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let model = Model::new(move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        let turn = turns(request);
        Ok(answer(
            turn,
            vec![match turn {
                0 => call("c", "echo", json!({})),
                _ => text("done"),
            }],
        ))
    });
    let waits = |prompt: &str| {
        let mut agent = Agent::new(echo);
        agent.config.system_prompt = prompt.into();
        agent.config.approval_signal =
            Some(ApprovalSignal { name: "go".into(), timeout: Duration::from_secs(600) });
        agent.policy = Some(|_, _| PermissionDecision::Ask("may it?".into()));
        agent
    };
    let worker = bench.serve(model.clone(), echo, waits("old"), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    while run.pending().await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(worker);

    let worker = bench.serve(model.clone(), echo, waits("new"), &options);
    run.signal("go", &ApprovalDecisions::new().approve("c")).await.unwrap();
    let noticed = async {
        loop {
            let history = String::from_utf8(run.history().await.unwrap()).unwrap();
            if history.contains("replay differs from the journal") {
                assert!(history.contains("llm/0 with system: "), "{history}");
                assert!(history.contains("got system: "), "{history}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), noticed).await.expect("the change is noticed");
    let is_stalled = |run: &RunSummary| run.status == RunStatus::Stalled;
    let reason = inspected(&bench, &bench.queue, is_stalled).await.reason.unwrap();
    assert!(reason.contains("llm/0 with system: ") && reason.contains("got system: "), "{reason}");
    let ended = tokio::time::timeout(Duration::from_secs(1), run.outcome()).await;
    assert!(ended.is_err(), "changed code ended the run: {ended:?}");
    drop(worker);

    let _worker = bench.serve(model, echo, waits(last_prompt), &last_options);
    let result = done(&run).await;
    assert_eq!(bench.runs.inspect(&bench.queue).await.unwrap().status, RunStatus::Done);
    assert_eq!(result.response, "done");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}
