//! Tests that kill a process during a stream, during a wait, and while a run continues as new. The public conformance
//! suite does not test these moments.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use neuron_conformance::child_process::{self, ChildProcess};
use neuron_conformance_durable::{EffectKind, EffectLog};
use neuron_durable_sqlite::{DurableOptions, RunBuilder, SqliteRuns};
use neuron_loop::{Agent, Conversation, LoopConfig, RunEvent};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, ToolSearch};
use neuron_types::{
    AgentResult, CALL_TOOL, CompletionRequest, CompletionResponse, Durability, DurableAgent,
    DurableContext as _, LoopError, Message, Provider, ProviderError, Role, SEARCH_TOOLS, Start,
    StreamHandle, TokenUsage, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::support::{HANGING, add_tool, place, whole};

/// Number of responses that call the tool, before the last response.
const TURNS: usize = 8;

/// The work of the agent in a child process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    /// Streams the model's responses in many small deltas.
    Streams,
    /// Sleeps and waits for signals before it runs its loop.
    Waits,
    /// Continues as new after every third step.
    Continues,
    /// Finds its tool by a search before it calls the tool.
    Searches,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Waits => "waits",
            Self::Continues => "continues",
            Self::Searches => "searches",
        }
    }

    /// Returns the number of responses before the last response.
    fn turns(self) -> usize {
        TURNS + usize::from(self == Self::Searches)
    }
}

/// Everything that a child process needs to drive the run.
#[derive(Debug, Clone)]
struct Job {
    program: Program,
    path: PathBuf,
    id: String,
    log: EffectLog,
}

impl Job {
    /// Serialises the job for a child process.
    fn task(&self) -> String {
        json!([self.path, self.id, self.log.path()]).to_string()
    }

    fn of_task(program: Program, task: &str) -> Self {
        let (path, id, log): (PathBuf, String, PathBuf) = serde_json::from_str(task).unwrap();
        Self { program, path, id, log: EffectLog::new(log) }
    }

    fn builder<'a>(&'a self, runs: &'a SqliteRuns) -> RunBuilder<'a> {
        let builder = runs.run(&self.id);
        match self.program {
            Program::Continues => builder.options(DurableOptions::new().continue_after(3)),
            _ => builder,
        }
    }

    /// Opens the run and drives it to its end.
    async fn drive(&self) -> Result<AgentResult, LoopError> {
        let runs = SqliteRuns::open(&self.path).await?;
        let model = Arc::new(Model(self.clone()));
        let context = self.builder(&runs).open(model, Arc::new(self.tools())).await?;
        context.drive(Message::user("go"), self).await
    }

    async fn agent(
        &self,
        start: Start,
        durability: Durability<'_>,
    ) -> Result<AgentResult, LoopError> {
        let mut start = start;
        if self.program == Program::Waits {
            let mut received = Vec::new();
            for _ in 0..SIGNALS {
                durability.sleep(Duration::from_millis(3)).await;
                let signal: Option<Value> = durability.wait_for_signal("word", HANGING).await?;
                received.push(signal.unwrap_or_default().to_string());
                // No process sends this signal.
                let none: Option<Value> =
                    durability.wait_for_signal("never", Duration::from_millis(2)).await?;
                received.push(none.unwrap_or_default().to_string());
            }
            start = Start::from(received.join(" "));
        }
        let agent = Agent::builder(Model(self.clone()))
            .context(whole())
            .tools(self.tools())
            .config(|config| *config = LoopConfig::default())
            .build();
        let mut conversation = Conversation::new();
        let run = agent.run(&mut conversation, start).durable(durability);
        let result = match self.program {
            Program::Streams => {
                let mut events = run.stream();
                loop {
                    match events.next().await.expect("an end") {
                        Ok(RunEvent::Ended(result)) => break result,
                        Ok(_) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            _ => run.await?,
        };
        Ok(result.with_messages(&conversation))
    }

    fn tools(&self) -> ToolRegistry {
        let mut tools = ToolRegistry::new();
        let log = self.log.clone();
        add_tool(&mut tools, "pay", move |input, ctx| {
            let log = log.clone();
            async move {
                let (tool, call_id, key) = ("pay".to_owned(), ctx.call_id, ctx.idempotency_key);
                log.append(EffectKind::ToolStarted { tool, call_id, key });
                tokio::time::sleep(Duration::from_micros(300)).await;
                ToolOutput::text(format!("paid {input}"))
            }
        });
        if self.program == Program::Searches {
            tools.defer_tools(ToolSearch::new()).unwrap();
        }
        tools
    }
}

const SIGNALS: usize = 5;

impl DurableAgent for Job {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(self.agent(start, durability))
    }
}

struct Model(Job);

impl Model {
    /// Returns a script with the one response that follows the conversation.
    fn script(&self, messages: &[Message]) -> ScriptedProvider {
        let turn = messages.iter().filter(|message| message.role == Role::Assistant).count();
        self.0.log.append(EffectKind::ModelCalled { step: format!("answer {turn}") });
        let text = format!("{turn}: {}", "All human beings are born free. ".repeat(4));
        let (searches, turns) = (self.0.program == Program::Searches, self.0.program.turns());
        let (id, input) = (format!("call-{turn}"), json!({ "turn": turn }));
        let reply = match (searches, turn) {
            (true, 0) => Reply::tool_call(id, SEARCH_TOOLS, json!({ "query": "pay" })),
            (true, turn) if turn < turns => {
                Reply::tool_call(id, CALL_TOOL, json!({ "name": "pay", "arguments": input }))
            }
            (false, turn) if turn < turns => Reply::tool_call(id, "pay", input).with_text(text),
            _ => Reply::text(text),
        };
        // Set explicitly. An estimate from the prompt would differ if the prompt has an unknown outcome.
        let usage = TokenUsage { input_tokens: 100, output_tokens: turn, ..TokenUsage::default() };
        let pieces = reply.id(format!("answer-{turn}")).usage(usage).chunk_chars(8);
        ScriptedProvider::new([pieces.event_delay(Duration::from_micros(200))])
    }
}

impl Provider for Model {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.script(&request.messages).complete(request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        self.script(&request.messages).complete_stream(request).await
    }
}

/// Repeatedly kills the process that drives a run and starts another process, until the run ends. Compares the result
/// with the result of an undisturbed run.
async fn survives(program: Program, test: &str) {
    if let Some(task) = child_process::task() {
        child_process::report("begins");
        Job::of_task(program, &task).drive().await.unwrap();
        child_process::report("ended");
        return;
    }
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = number("KILL_ROUNDS").map_or(8, |rounds| rounds.div_ceil(10));
    let seed = number("KILL_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_nanos() as u64
    });
    let (folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let job = |name: &str| {
        let id = format!("{}-{name}", program.name());
        Job { program, path: path.clone(), log: EffectLog::new(folder.path().join(&id)), id }
    };
    let undisturbed = job("undisturbed");
    signal(&undisturbed, &runs).await;
    let begin = Instant::now();
    let expected = undisturbed.drive().await.unwrap();
    let mut longest = begin.elapsed().as_micros() as u64;
    assert_eq!(undisturbed.log.model_calls(), program.turns() + 1);
    assert_eq!(undisturbed.log.starts_of("pay"), TURNS);

    let (mut random, mut all) = (seed, 0);
    for round in 0.. {
        if round >= rounds && all > 0 {
            break;
        }
        let what = format!("round {round} of {test} with KILL_SEED={seed}");
        let job = job(&format!("{round}"));
        signal(&job, &runs).await;
        let mut kills = 0;
        loop {
            let mut child = ChildProcess::start(test, &job.task());
            assert_eq!(child.next_report(HANGING).as_deref(), Some("begins"), "{what}");
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let moment = Duration::from_micros((random >> 33) % longest);
            if child.next_report(moment).as_deref() == Some("ended") {
                break;
            }
            // Dropping the child kills the process.
            drop(child);
            kills += 1;
        }
        let result = job.drive().await.unwrap();
        let calls = job.log.model_calls();
        assert!(
            calls <= program.turns() + 1 + kills,
            "{what}: {calls} calls of the model with {kills} kills"
        );
        let unknown = check_messages(&result, &expected, &what);
        assert!(unknown <= kills, "{what}: {unknown} outcomes are unknown with {kills} kills");
        assert_eq!(result.usage, expected.usage, "{what}");
        assert_eq!(result.turns, expected.turns, "{what}");
        check_calls(&job.log, &what);
        all += kills;
        if all == 0 {
            // Every kill came too late, because the undisturbed run took longer. Use shorter delays.
            longest = (longest / 2).max(1);
        }
    }
    println!("{} was killed {all} times", program.name());
}

/// Sends the signals for which the run waits.
async fn signal(job: &Job, runs: &SqliteRuns) {
    if job.program != Program::Waits {
        return;
    }
    // Opening the run creates it, so that signals can be sent to it.
    drop(job.builder(runs).open(Arc::new(Model(job.clone())), Arc::default()).await.unwrap());
    for number in 0..SIGNALS {
        runs.signal(&job.id, "word", format!("word {number}")).await.unwrap();
    }
}

/// Checks that the messages are equal, except for tool results with an unknown outcome. Returns the number of these
/// tool results. `what` describes the round in the message of a failed check.
fn check_messages(result: &AgentResult, expected: &AgentResult, what: &str) -> usize {
    assert_eq!(result.messages.len(), expected.messages.len(), "{what}");
    let mut unknown = 0;
    for (message, expected) in result.messages.iter().zip(&expected.messages) {
        let is_unknown =
            format!("{message:?}").contains("The outcome of this call of `pay` is unknown");
        match is_unknown {
            true => unknown += 1,
            false => assert_eq!(message, expected, "{what}"),
        }
    }
    unknown
}

/// Checks that each call began at most once. `what` names the round in a failure.
fn check_calls(log: &EffectLog, what: &str) {
    let mut calls = Vec::new();
    for effect in log.effects() {
        if let EffectKind::ToolStarted { call_id, key, .. } = effect.kind {
            calls.push((call_id, key));
        }
    }
    let began = calls.len();
    calls.sort();
    calls.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(calls.len(), began, "{what}: a call began twice");
    calls.dedup_by(|one, other| one.1 == other.1);
    assert_eq!(calls.len(), began, "{what}: two calls have one key");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_killed_while_streaming_has_the_same_result() {
    survives(Program::Streams, "killed::run_killed_while_streaming_has_the_same_result").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_killed_while_waiting_has_the_same_result() {
    survives(Program::Waits, "killed::run_killed_while_waiting_has_the_same_result").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_killed_while_continuing_as_new_has_the_same_result() {
    survives(Program::Continues, "killed::run_killed_while_continuing_as_new_has_the_same_result")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_killed_between_search_and_call_has_the_same_result() {
    survives(Program::Searches, "killed::run_killed_between_search_and_call_has_the_same_result")
        .await;
}
