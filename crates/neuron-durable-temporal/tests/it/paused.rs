//! Tests of workers that are stopped with `SIGSTOP`, and resumed after another worker has taken their run over.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use neuron_conformance::child_process::{self, ChildProcess};
use neuron_durable_temporal::AgentWorker;
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, CompletionRequest, Durability, DurableAgent, LoopError, Start, ToolContext,
    ToolEffect, ToolOutput, WasmBoxedFuture,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::host::{Agent, Does, Model, TestContext, answer, call, connect, options, text, turns};

/// The operation in which a worker waits until the file `go on` exists. The test stops the worker's process there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Place {
    Model,
    Tool,
    /// In the activity of the tool, before the tool is called.
    BeforeTool,
}

/// Settings of a worker whose model and tool log the start of each operation to a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Site {
    name: String,
    folder: PathBuf,
    /// The operation in which the worker waits and is stopped. `None` if the worker never waits.
    place: Option<Place>,
}

impl Site {
    fn log(&self, event: &str) {
        use std::io::Write as _;
        let file = self.folder.join(&self.name);
        let open = std::fs::OpenOptions::new().create(true).append(true).open(file);
        open.unwrap().write_all(format!("{event}\n").as_bytes()).unwrap();
    }

    fn events(&self, run: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.join(&self.name)).unwrap_or_default();
        log.lines().filter(|line| line.starts_with(run)).map(str::to_owned).collect()
    }

    /// Returns `true` if the worker must wait in the operation `place`. Before that, reports the operation to the
    /// parent process.
    fn reaches(&self, place: Place) -> bool {
        let waits = self.place == Some(place) && !self.may_go_on();
        if waits {
            child_process::report(&format!("{place:?}"));
        }
        waits
    }

    fn may_go_on(&self) -> bool {
        self.folder.join("go on").exists()
    }

    fn block_at(&self, place: Place) {
        if self.reaches(place) {
            while !self.may_go_on() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn model(&self) -> Model {
        let site = self.clone();
        Model::new(move |request| {
            let (turn, run) = (turns(request), first_message(request));
            site.log(&format!("{run}: model {turn}"));
            site.block_at(Place::Model);
            let content = match turn {
                0 => call("w", "wire", json!({"run": run})),
                _ => text("done"),
            };
            Ok(answer(turn, vec![content]))
        })
    }

    fn tools(&self) -> ToolRegistry {
        let site = self.clone();
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Does::new("wire", ToolEffect::AtMostOnce, move |input, _| {
            let site = site.clone();
            async move {
                let run = input["run"].as_str().unwrap().to_owned();
                site.log(&format!("{run}: tool"));
                if site.reaches(Place::Tool) {
                    while !site.may_go_on() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    site.log(&format!("{run}: tool goes on"));
                }
                Ok(ToolOutput::text("wired"))
            }
        }));
        tools
    }
}

fn first_message(request: &CompletionRequest) -> String {
    request.messages.first().unwrap().text()
}

/// An agent whose worker may be stopped in `extend_context`, which the activity of a tool calls before the tool.
struct HandsOn(Agent, Site);

impl DurableAgent for HandsOn {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        self.0.run(start, durability)
    }

    fn extend_context(&self, _: &mut ToolContext) {
        self.1.block_at(Place::BeforeTool);
    }
}

fn declared() -> ToolRegistry {
    let nowhere = Site { name: String::new(), folder: PathBuf::new(), place: None };
    nowhere.tools()
}

fn signal(name: &str, process: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), process]).status();
    assert!(sent.unwrap().success());
}

/// Stops a worker in the operation `place`, lets a second worker end the run, and resumes the first worker. Returns the
/// operations that each of the two workers started, and the response.
///
/// Returns `None` if no server is available.
async fn check_stopped(test: &str, place: Place) -> Option<(Vec<String>, Vec<String>, String)> {
    if let Some(task) = child_process::task() {
        let (address, queue, site): (String, String, Site) = serde_json::from_str(&task).unwrap();
        child_process::report(&std::process::id().to_string());
        let (client, agent) =
            (connect(&address).await, HandsOn(Agent::new(declared), site.clone()));
        let worker = AgentWorker::builder(client, queue, site.model(), site.tools(), agent);
        let worker = worker.options(options()).sticky_timeout(Duration::from_millis(500));
        worker.build().unwrap().run().await.unwrap();
        return None;
    }
    let options = options();
    let bench = TestContext::new(&format!("stopped-{place:?}"), &options).await?;
    let folder = tempfile::tempdir().unwrap();
    let site = |name: &str, place| Site { name: name.into(), folder: folder.path().into(), place };
    let (first, second) = (site("first", Some(place)), site("second", None));
    let task = serde_json::to_string(&(&bench.address, &bench.queue, &first)).unwrap();
    let mut child = ChildProcess::start(test, &task);
    let process = report(&mut child);
    let runs = bench.runs.clone().task_timeout(Duration::from_secs(3));
    let run = runs.start(format!("{}-a", bench.queue), "a").await.unwrap();
    assert_eq!(report(&mut child), format!("{place:?}"));
    signal("STOP", &process);

    let agent = HandsOn(Agent::new(declared), second.clone());
    let worker = bench.serve_with(second.model(), second.tools().into(), agent, &options);
    let ended = tokio::time::timeout(Duration::from_secs(60), run.outcome());
    let outcome = ended.await.expect("another worker takes the run over").unwrap();
    let result = outcome.into_result().unwrap();
    assert_eq!(result.response, "done");
    tokio::task::block_in_place(|| drop(worker));
    let before = first.events("a");

    go_on(folder.path());
    signal("CONT", &process);
    // The first worker is the only one now. After it has ended this second run, it has surely resumed.
    let run = runs.start(format!("{}-b", bench.queue), "b").await.unwrap();
    let ended = async {
        while !child.has_ended() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let ended = async {
        tokio::select! {
            outcome = run.outcome() => {
                assert_eq!(outcome.unwrap().into_result().unwrap().response, "done");
                assert_eq!(first.events("b"), ["b: model 0", "b: tool", "b: model 1"]);
            }
            // After the resumption the SDK may receive two tasks of the run, and asserts in debug builds that it does
            // not.
            () = ended => println!("the worker ended when it went on"),
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the worker goes on");
    assert_eq!(first.events("a"), before, "it began something");
    let told = serde_json::to_string(&result.messages).unwrap();
    Some((before, second.events("a"), told))
}

fn report(child: &mut ChildProcess) -> String {
    let report = tokio::task::block_in_place(|| child.next_report(Duration::from_secs(60)));
    report.expect("a report")
}

fn go_on(folder: &Path) {
    std::fs::write(folder.join("go on"), "").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_stopped_in_a_model_call_starts_nothing_after_takeover() {
    let test = "paused::worker_stopped_in_a_model_call_starts_nothing_after_takeover";
    let Some((first, second, _)) = check_stopped(test, Place::Model).await else { return };
    assert_eq!(first, ["a: model 0"]);
    // The server may have given the tool to the stopped worker before it was stopped.
    let second: Vec<_> = second.iter().filter(|event| *event != "a: tool").collect();
    assert_eq!(second, ["a: model 0", "a: model 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_stopped_in_a_tool_does_not_continue_the_tool() {
    let test = "paused::worker_stopped_in_a_tool_does_not_continue_the_tool";
    let Some((first, second, told)) = check_stopped(test, Place::Tool).await else { return };
    assert_eq!(first, ["a: model 0", "a: tool"]);
    assert_eq!(second, ["a: model 1"]);
    assert!(told.contains("unknown"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_stopped_before_a_tool_does_not_start_the_tool() {
    let test = "paused::worker_stopped_before_a_tool_does_not_start_the_tool";
    let Some((first, second, told)) = check_stopped(test, Place::BeforeTool).await else { return };
    assert_eq!(first, ["a: model 0"]);
    assert_eq!(second, ["a: model 1"]);
    assert!(told.contains("unknown"), "{told}");
}
