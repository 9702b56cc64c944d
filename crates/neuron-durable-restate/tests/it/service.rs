//! The child process that serves the agent. It runs the same test binary as its parent process.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use neuron_conformance::child_process::{self, ChildProcess};
use neuron_context::SlidingWindowStrategy;
use neuron_durable_restate::{
    AgentService, ChangedAgent, DurableOptions, RestateOptions, UnknownOutcome,
};
use neuron_loop::{ApprovalSignal, Conversation, LoopConfig, RunEvent};
use neuron_types::{
    AgentResult, Durability, DurableAgent, DurableContext, LoopError, PermissionDecision,
    PermissionPolicy, RetryPolicy, Start, StreamEvent, ToolContext, WasmBoxedFuture,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::model::{Effects, Model, Moods, tools};

/// Settings of the child process that serves the agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) effects: PathBuf,
    /// Port of the service. With 0 the system selects a free port.
    pub(crate) port: u16,
    pub(crate) model_millis: u64,
    pub(crate) system_prompt: String,
    /// System prompt of the nested agent.
    pub(crate) helper_prompt: String,
    pub(crate) changed_agent_goes_on: bool,
    pub(crate) continue_after: Option<usize>,
    pub(crate) longest_step: Duration,
    pub(crate) aside_after: Option<Duration>,
    pub(crate) fail_unknown: bool,
    pub(crate) agent_version: Option<String>,
    pub(crate) lease: Duration,
    /// Maximum time that a run waits for the approval of tool calls.
    pub(crate) approval_timeout: Duration,
    pub(crate) streams: bool,
    /// Steps that the agent executes before its loop, separated by spaces, for example `sleep:10`. They precede the
    /// steps in the second line of the user's message. Without a second line they are skipped.
    pub(crate) first: String,
    pub(crate) environment: HashMap<String, String>,
    pub(crate) cwd: PathBuf,
}

impl Task {
    pub(crate) fn new(effects: PathBuf) -> Self {
        Self {
            effects,
            port: 0,
            model_millis: 30,
            system_prompt: "Be brief.".into(),
            helper_prompt: "You help.".into(),
            changed_agent_goes_on: false,
            continue_after: None,
            longest_step: Duration::from_secs(600),
            aside_after: None,
            fail_unknown: false,
            agent_version: None,
            lease: Duration::from_secs(60),
            approval_timeout: Duration::from_secs(600),
            streams: false,
            first: String::new(),
            environment: HashMap::new(),
            cwd: "/".into(),
        }
    }

    pub(crate) fn start(&self) -> Started {
        let task = serde_json::to_string(self).unwrap();
        let mut process = ChildProcess::start("service::child_process_serves_the_agent", &task);
        let report = process.next_report(Duration::from_secs(60)).expect("the service listens");
        let (port, id) = report.split_once(' ').unwrap();
        Started { process, port: port.parse().unwrap(), id: id.parse().unwrap() }
    }
}

/// A running service process. It is killed when it is dropped.
pub(crate) struct Started {
    pub(crate) process: ChildProcess,
    pub(crate) port: u16,
    id: u32,
}

impl Started {
    /// Sends the signal `STOP` or `CONT` to the process.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.id.to_string();
        let kill = ["-c", r#"kill "$@""#, "kill", &format!("-{name}"), &id];
        assert!(std::process::Command::new("/bin/sh").args(kill).status().unwrap().success());
    }

    /// Returns the number of heartbeats that the process has written.
    pub(crate) fn beats(&self, effects: &Effects) -> usize {
        std::fs::metadata(effects.beats(self.id)).map_or(0, |beats| beats.len() as usize)
    }
}

/// Entry point of the child process. Does nothing in a normal test run.
#[test]
fn child_process_serves_the_agent() {
    let Some(task) = child_process::task() else { return };
    let task: Task = serde_json::from_str(&task).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(serve(task));
}

async fn serve(task: Task) {
    let mut attempts = 0;
    let listener = loop {
        match TcpListener::bind(("127.0.0.1", task.port)).await {
            Ok(listener) => break listener,
            Err(error) if attempts == 200 => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
        attempts += 1;
    };
    let effects = Effects(task.effects.clone());
    let model =
        Arc::new(Model { effects: effects.clone(), moods: Moods { millis: task.model_millis } });
    let agent = Agent { task: task.clone(), model: model.clone() };
    let outcome = match task.fail_unknown {
        true => UnknownOutcome::Fail,
        false => UnknownOutcome::TellModel,
    };
    let mut durable = DurableOptions::new()
        .continue_after(task.continue_after.unwrap_or(usize::MAX))
        .unknown_outcome(outcome)
        .lease(task.lease);
    if task.changed_agent_goes_on {
        durable = durable.changed_agent(ChangedAgent::GoOn);
    }
    durable.agent_version = task.agent_version;
    let mut options =
        RestateOptions::from(durable).environment(["ALLOWED"]).longest_step(task.longest_step);
    if let Some(wait) = task.aside_after {
        options = options.aside_after(wait);
    }
    let service = AgentService::new("support", model, tools(&effects, &task.helper_prompt), agent)
        .options(options);
    let id = std::process::id();
    child_process::report(&format!("{} {id}", listener.local_addr().unwrap().port()));
    tokio::spawn(beat(effects.beats(id)));
    service.serve(listener, std::future::pending::<()>()).await.unwrap();
}

/// Writes a byte to a file at regular intervals, as a heartbeat of this process.
async fn beat(file: PathBuf) {
    let mut file = std::fs::File::create(file).unwrap();
    loop {
        file.write_all(b".").unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

struct Agent {
    task: Task,
    model: Arc<Model>,
}

impl Agent {
    fn agent(&self) -> neuron_loop::Agent {
        neuron_loop::Agent::builder(self.model.clone())
            .context(SlidingWindowStrategy::new(50, 100_000))
            .tools((*tools(&self.model.effects, &self.task.helper_prompt)).clone())
            .permission_policy(AskForWire)
            .config(|config| {
                let (name, timeout) = ("approval".into(), self.task.approval_timeout);
                *config = LoopConfig::default();
                config.system_prompt = self.task.system_prompt.as_str().into();
                config.parallel_tool_execution = true;
                config.approval_signal = Some(ApprovalSignal { name, timeout });
                config.tool_activity.retry_policy = Some(RetryPolicy {
                    initial_interval: Duration::from_millis(1500),
                    backoff_coefficient: 1.0,
                    maximum_attempts: 3,
                    maximum_interval: Duration::from_millis(1500),
                    non_retryable_errors: Vec::new(),
                });
            })
            .build()
    }
}

impl DurableAgent for Agent {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(async move {
            if let Start::Message(message) = &start {
                let todo = message.text().split_once('\n').map(|(_, todo)| todo.to_owned());
                let todo = todo.map(|todo| format!("{} {todo}", self.task.first));
                before(todo.as_deref(), &durability, &self.model.effects).await?;
            }
            let agent = self.agent();
            let ctx = ToolContext {
                cwd: self.task.cwd.clone(),
                environment: self.task.environment.clone(),
                ..ToolContext::default()
            };
            let mut conversation = Conversation::new();
            let run = agent.run(&mut conversation, start).context(&ctx).durable(durability);
            let result = match self.task.streams {
                false => run.await?,
                true => {
                    let mut events = run.stream();
                    loop {
                        match events.next().await.expect("an end")? {
                            RunEvent::Event(StreamEvent::TextDelta(text)) => {
                                self.model.effects.write(&format!("delta {text}"));
                            }
                            RunEvent::Ended(result) => break result,
                            _ => {}
                        }
                    }
                }
            };
            Ok(result.with_messages(&conversation))
        })
    }

    fn extend_context(&self, ctx: &mut ToolContext) {
        self.agent().extend_context(ctx);
    }
}

/// Executes the steps in `todo`, which the agent needs before its loop. Steps are separated by spaces, for example
/// `sleep:10 wait:signal:500`. Does nothing if `todo` is `None`.
async fn before(
    todo: Option<&str>,
    durability: &Durability<'_>,
    effects: &Effects,
) -> Result<(), LoopError> {
    let Some(todo) = todo else { return Ok(()) };
    effects.write(&format!("begins, a replay: {}", durability.is_replaying()));
    for part in todo.split_whitespace() {
        let parts: Vec<&str> = part.split(':').collect();
        match parts[..] {
            ["panic", file] if !std::path::Path::new(file).exists() => {
                panic!("as told");
            }
            ["panic", _] => {}
            ["now"] => effects.write(&format!("now {}", durability.now().timestamp_millis())),
            ["sleep", millis] => {
                durability.sleep(Duration::from_millis(millis.parse().unwrap())).await;
            }
            ["wait", name, millis] => {
                let timeout = Duration::from_millis(millis.parse().unwrap());
                let signal: Option<String> = durability.wait_for_signal(name, timeout).await?;
                effects.write(&format!("{name} gave {signal:?}"));
            }
            ["record", bytes] => {
                let text = "x".repeat(bytes.parse().unwrap());
                let value = json!({"agent_version_now": "v9", "record": text});
                let recorded = durability.record("note", value.clone()).await;
                let is_same = recorded.map(|recorded| recorded == value);
                effects.write(&format!("recorded {is_same:?}"));
            }
            _ => panic!("{part}"),
        }
    }
    Ok(())
}

/// A policy that requires an approval for the tool `wire`.
struct AskForWire;

impl PermissionPolicy for AskForWire {
    fn check(&self, tool_name: &str, _: &Value) -> PermissionDecision {
        match tool_name {
            "wire" => PermissionDecision::Ask("may it be wired?".into()),
            _ => PermissionDecision::Allow,
        }
    }
}
