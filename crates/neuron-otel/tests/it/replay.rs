//! Tests of durable runs. Replayed operations must not be recorded again, neither in spans nor in metrics.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use neuron_durable_sqlite::{
    DurableOptions, JournalError, SqliteDurableContext, SqliteOptions, SqliteRuns, StepInfo,
    StepKind,
};
use neuron_loop::LoopError;
use neuron_otel::SemanticConventions;
use neuron_runtime::LocalDurableContext;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CompletionRequest, CompletionResponse, DurableError, Message, Provider, ProviderError,
    ProviderInfo, Role, StreamHandle, ToolContext, ToolEffect,
};
use opentelemetry_sdk::trace::SpanData;
use serde_json::json;
use tempfile::TempDir;
use tracing::{Instrument, info_span};

use crate::support::agents::{Chat, MODES, bare, hook, looks, parallel, scout_of};
use crate::support::memory::{Memory, attribute};
use crate::support::tools::{Act, Gate, registry};

const RUN: &str = "invoke_agent scout";
const CHAT: &str = "chat scripted-model";
const TOOL: &str = "execute_tool look";

/// A database in a temporary folder, which is deleted at the end.
struct Database(TempDir);

impl Database {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("runs.db")
    }

    async fn runs(&self) -> SqliteRuns {
        // The writes of a dropped run may still be in progress, and a disk may be slow.
        let patient = SqliteOptions::new().busy_timeout(Duration::from_secs(600));
        SqliteRuns::open_with(self.path(), patient).await.unwrap()
    }

    /// Waits until the journal contains the results of `calls` tool calls.
    async fn recorded(&self, calls: usize) {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let runs = self.runs().await;
            let Ok(details) = runs.inspect("r").await else {
                continue;
            };
            let is_recorded =
                |step: &&StepInfo| step.kind == StepKind::Tool && step.ended_at.is_some();
            if details.steps.iter().filter(is_recorded).count() == calls {
                return;
            }
        }
    }
}

/// A model whose response depends only on the conversation in the request. The response is the reply whose index is the
/// number of earlier responses in the conversation.
#[derive(Clone)]
struct ByTurn(Vec<Reply>);

impl ByTurn {
    fn of(&self, request: &CompletionRequest) -> ScriptedProvider {
        let is_answer = |message: &&Message| message.role == Role::Assistant;
        let turn = request.messages.iter().filter(is_answer).count();
        ScriptedProvider::new([self.0[turn].clone()])
    }
}

impl Provider for ByTurn {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.of(&request).complete(request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        self.of(&request).complete_stream(request).await
    }

    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::new("scripted", "scripted-model")
    }
}

/// Opens the run and drives it, as a new process would after a crash of the previous process.
async fn attempt(
    database: &Database,
    memory: &Memory,
    conventions: SemanticConventions,
    replies: Vec<Reply>,
    gate: &Gate,
) -> Result<String, LoopError> {
    let provider = ByTurn(replies);
    let tools = registry([Act::gated("look", ToolEffect::Idempotent, gate)]);
    let context = loop {
        let (provider, tools) = (Arc::new(provider.clone()), Arc::new(tools.clone()));
        match database.runs().await.run("r").open(provider, tools).await {
            // The last write of the previous attempt may still be in progress, so the run is still held.
            Err(JournalError::Held { .. }) => tokio::time::sleep(Duration::from_millis(2)).await,
            opened => break opened.unwrap(),
        }
    };
    let start = context.start("go").await?;
    let mut agent = Chat::new(
        bare(provider)
            .name("scout")
            .tools(tools)
            .config(parallel)
            .hook(hook(memory).with_conventions(conventions)),
    );
    let ctx = ToolContext { session_id: "s-1".into(), ..ToolContext::default() };
    Ok(agent.run(start, &ctx).durable(context).await?.response)
}

fn batch() -> Reply {
    looks([json!({"text": "a"}), json!({"text": "b", "gated": true}), json!({"text": "c"})])
}

fn ids(spans: &[SpanData]) -> Vec<String> {
    let mut ids: Vec<_> =
        spans.iter().map(|span| attribute(span, "gen_ai.tool.call.id").unwrap()).collect();
    ids.sort();
    ids
}

fn measured(memory: &Memory, operation: &str) -> u64 {
    let all = memory.measured("gen_ai.client.operation.duration");
    let name = format!("gen_ai.operation.name={operation}");
    all.iter().filter(|(key, _)| key.contains(&name)).map(|(_, count)| count).sum()
}

#[tokio::test]
async fn calls_over_two_attempts_are_recorded_once_per_execution() {
    let database = Database::new();
    let memory = Memory::new();
    let conventions = SemanticConventions::V1_41;
    let gate = Gate::default();
    {
        let first = attempt(&database, &memory, conventions, vec![batch()], &gate);
        tokio::select! {
            ended = first => panic!("{ended:?}"),
            () = database.recorded(2) => {}
        }
    }
    memory.check_closed();
    let run = memory.one(RUN);
    assert_eq!(attribute(&run, "error.type").as_deref(), Some("Cancelled"));
    assert_eq!(attribute(&run, "neuron.run.resumed"), None);
    assert_eq!(memory.named(CHAT).len(), 1);
    assert_eq!(ids(&memory.named(TOOL)), ["c0", "c1", "c2"]);
    memory.clear();

    gate.open();
    let answer = attempt(&database, &memory, conventions, vec![batch(), "done".into()], &gate);
    let around = answer.instrument(info_span!("process"));
    assert_eq!(around.await.unwrap(), "done");
    memory.check_closed();
    // The interrupted call ran again. The other calls and the first response were in the journal.
    assert_eq!(
        memory.tree(),
        format!("process\n  {RUN}\n    {TOOL}\n      work b\n      more b\n    {CHAT}\n")
    );
    let run = memory.one(RUN);
    assert_eq!(attribute(&run, "neuron.run.resumed").as_deref(), Some("true"));
    assert_eq!(attribute(&run, "gen_ai.conversation.id").as_deref(), Some("s-1"));
    assert_eq!(attribute(&run, "error.type"), None);
    assert_eq!(ids(&memory.named(TOOL)), ["c1"]);
    assert_eq!(measured(&memory, "chat"), 2);
    assert_eq!(measured(&memory, "execute_tool"), 4);
    assert_eq!(measured(&memory, "invoke_agent"), 2);
    let recorded = memory.all_measured();
    memory.clear();

    // The run has ended, so a further attempt does nothing.
    let answer = attempt(&database, &memory, conventions, vec![], &gate).await.unwrap();
    assert_eq!(answer, "done");
    memory.check_closed();
    assert_eq!(memory.tree(), "");
    assert_eq!(measured(&memory, "invoke_agent"), 2);
    assert_eq!(measured(&memory, "chat"), 2);
    drop(recorded);
}

// Regression test. If several calls began in the same poll as the span of a resumed run, only the first call was a
// child of that span.
#[tokio::test]
async fn first_operations_of_resumed_run_are_its_children() {
    for conventions in MODES {
        let database = Database::new();
        let memory = Memory::new();
        let gate = Gate::default();
        let all = || looks(["a", "b", "c"].map(|text| json!({"text": text, "gated": true})));
        {
            let first = attempt(&database, &memory, conventions, vec![all()], &gate);
            tokio::select! {
                ended = first => panic!("{ended:?}"),
                () = gate.reached() => {}
            }
        }
        memory.check_closed();
        memory.clear();
        gate.open();
        attempt(&database, &memory, conventions, vec![all(), "done".into()], &gate).await.unwrap();
        memory.check_closed();
        let run = memory.one(RUN);
        for span in memory.spans() {
            assert_eq!(span.span_context.trace_id(), run.span_context.trace_id(), "{}", span.name);
        }
        let tools: Vec<_> =
            memory.spans().into_iter().filter(|span| span.name.contains("execute_tool")).collect();
        assert_eq!(tools.len(), 3);
        for tool in tools {
            assert_eq!(tool.parent_span_id, run.span_context.span_id(), "{}", memory.tree());
        }
    }
}

#[tokio::test]
async fn run_dropped_after_any_poll_records_no_call_twice() {
    // The run is dropped while an operation is pending, or after the operation was woken.
    for (polls, is_woken) in (0..).flat_map(|polls| [(polls, false), (polls, true)]) {
        let database = Database::new();
        let memory = Memory::new();
        let gate = Gate::default();
        gate.open();
        let script = || {
            let inputs = [json!({"text": "a", "polls": 1}), json!({"text": "b", "polls": 3})];
            vec![looks(inputs), looks([json!({"text": "c", "polls": 1})]), "done".into()]
        };
        let conventions = SemanticConventions::V1_41;
        let has_ended = {
            let mut first = pin!(attempt(&database, &memory, conventions, script(), &gate));
            let mut left = polls;
            poll_fn(|cx| {
                if left == 0 {
                    return Poll::Ready(false);
                }
                left -= 1;
                match first.as_mut().poll(cx) {
                    Poll::Ready(_) => Poll::Ready(true),
                    Poll::Pending if left == 0 && !is_woken => Poll::Ready(false),
                    Poll::Pending => Poll::Pending,
                }
            })
            .await
        };
        memory.check_closed();
        // A response may have arrived without being written to the journal. The model is then called again.
        let answer = attempt(&database, &memory, conventions, script(), &gate).await.unwrap();
        memory.check_closed();
        assert_eq!(answer, "done", "{polls}");
        let chats = memory.named(CHAT);
        let is_fine = |chat: &&SpanData| attribute(chat, "error.type").is_none();
        // At most one call was interrupted. Either the call was repeated, or its response was in the journal already.
        let fine = chats.iter().filter(is_fine).count();
        assert!((3..=4).contains(&chats.len()), "{polls}: {}", memory.tree());
        assert!(fine == 3 || (fine == 2 && chats.len() == 3), "{polls}: {}", memory.tree());
        assert_eq!(measured(&memory, "chat"), chats.len() as u64);
        let tools = memory.named(TOOL).len() as u64;
        assert!(tools >= 3, "{polls}: {}", memory.tree());
        assert_eq!(measured(&memory, "execute_tool"), tools);
        // There is one span for each execution, and one for each call that was abandoned before it ran.
        let spans = memory.spans();
        for tool in memory.named(TOOL) {
            let id = tool.span_context.span_id();
            let is_work =
                |span: &&SpanData| span.parent_span_id == id && span.name.starts_with("work");
            let works = spans.iter().filter(is_work).count();
            let is_abandoned = attribute(&tool, "error.type").as_deref() == Some("Cancelled");
            assert!(works == 1 || (works == 0 && is_abandoned), "{}", memory.tree());
        }
        for work in spans.iter().filter(|span| span.name.starts_with("work")) {
            let is_tool = |span: &&SpanData| span.span_context.span_id() == work.parent_span_id;
            assert_eq!(spans.iter().find(is_tool).unwrap().name, TOOL);
        }
        if has_ended {
            assert!(polls > 5);
            return;
        }
    }
}

#[tokio::test]
async fn parallel_calls_of_durable_run_have_separate_spans() {
    for is_local in [true, false] {
        let database = Database::new();
        let memory = Memory::new();
        let inputs = [
            json!({"text": "a", "delay": 60}),
            json!({"text": "b"}),
            json!({"text": "c", "delay": 30}),
        ];
        let provider = ScriptedProvider::new([looks(inputs), Reply::text("done")]);
        let tools = registry([Act::new("look")]);
        let builder = scout_of(provider.clone()).config(parallel).hook(hook(&memory));
        let mut agent = Chat::new(builder);
        let (provider, tools, ctx) = (Arc::new(provider), Arc::new(tools), ToolContext::default());
        let result = if is_local {
            let context = LocalDurableContext::new(provider, tools);
            agent.run("go", &ctx).durable(context).await
        } else {
            let context = SqliteDurableContext::open(database.path(), "r", provider, tools);
            agent.run("go", &ctx).durable(context.await.unwrap()).await
        };
        result.unwrap();
        memory.check_closed();
        let spans = memory.spans();
        let mut durations = Vec::new();
        for tool in memory.named(TOOL) {
            let id = tool.span_context.span_id();
            let below: Vec<_> = spans.iter().filter(|span| span.parent_span_id == id).collect();
            assert_eq!(below.len(), 2, "{}", memory.tree());
            let text = below[0].name.split(' ').next_back().unwrap();
            assert!(below[1].name.ends_with(text));
            let lasted = tool.end_time.duration_since(tool.start_time).unwrap();
            // The span ends when the call's work ends, and not when the whole batch ends.
            let more = below.iter().find(|span| span.name.starts_with("more")).unwrap();
            assert!(more.end_time <= tool.end_time);
            durations.push((attribute(&tool, "gen_ai.tool.call.id").unwrap(), lasted));
        }
        durations.sort();
        let [a, b, c] = durations.as_slice() else { panic!("{durations:?}") };
        assert!(a.1 >= Duration::from_millis(60), "{durations:?}");
        assert!(c.1 >= Duration::from_millis(30), "{durations:?}");
        assert!(b.1 < a.1, "the quick one did not wait for the slow one: {durations:?}");
    }
}

#[tokio::test]
async fn cancelled_call_of_durable_run_ends_at_cancellation() {
    use crate::support::polls::{LONG, nothing_happens, poll_times};
    let memory = Memory::new();
    let provider = ScriptedProvider::new([looks([json!({"do": "hang"})])]);
    let tools = registry([Act::new("look")]);
    let context = LocalDurableContext::new(Arc::new(provider.clone()), Arc::new(tools));
    let mut agent = Chat::new(scout_of(provider).hook(hook(&memory)));
    let ctx = ToolContext::default();
    {
        let mut run = pin!(agent.run("go", &ctx).durable(context).into_future());
        assert!(poll_times(run.as_mut(), 20).is_none());
        nothing_happens();
        ctx.cancellation_token.cancel();
        poll_times(run, 20).expect("it ends").unwrap_err();
    }
    memory.check_closed();
    for name in [RUN, TOOL] {
        let span = memory.one(name);
        assert_eq!(attribute(&span, "error.type").as_deref(), Some("Cancelled"));
        assert!(span.end_time.duration_since(span.start_time).unwrap() >= LONG, "{name}");
    }
}

#[tokio::test]
async fn continue_as_new_is_no_failure() {
    let database = Database::new();
    let memory = Memory::new();
    let replies = [looks([json!({})]), looks([json!({})]), Reply::text("done")];
    let (provider, tools) = (ScriptedProvider::new(replies), registry([Act::new("look")]));
    let runs = SqliteRuns::open(database.path()).await.unwrap();
    let context = runs.run("r").options(DurableOptions::new().continue_after(1));
    let context = context.open(Arc::new(provider.clone()), Arc::new(tools.clone())).await.unwrap();
    let mut executions = 0;
    let answer = loop {
        executions += 1;
        let start = context.start("go").await.unwrap();
        let mut agent = Chat::new(scout_of(provider.clone()).hook(hook(&memory)));
        match agent.run(start, &ToolContext::default()).durable(&context).await {
            Err(LoopError::Durable(DurableError::ContinueAsNew(_))) => {}
            ended => break ended.unwrap().response,
        }
    };
    assert_eq!(answer, "done");
    assert!(executions > 1);
    memory.check_closed();
    let runs = memory.named(RUN);
    assert_eq!(runs.len(), executions);
    for run in &runs {
        assert_eq!(attribute(run, "error.type"), None);
        assert_eq!(run.status, opentelemetry::trace::Status::Unset);
    }
    assert_eq!(memory.named(CHAT).len(), 3);
    assert_eq!(memory.named(TOOL).len(), 2);
}

/// Checks a durable run that fails because its agent was changed before the replay. The failure must be recorded
/// although all work of the run is in the journal.
#[tokio::test]
async fn nondeterministic_replay_is_recorded() {
    let database = Database::new();
    let memory = Memory::new();
    let gate = Gate::default();
    gate.open();
    let conventions = SemanticConventions::V1_41;
    let replies = vec![batch(), "done".into()];
    attempt(&database, &memory, conventions, replies, &gate).await.unwrap();
    memory.clear();
    let provider = ScriptedProvider::new([""; 0]);
    let context = SqliteDurableContext::open(
        database.path(),
        "r",
        Arc::new(provider.clone()),
        Arc::new(registry([Act::new("look")])),
    );
    let context = context.await.unwrap();
    let start = context.start("go").await.unwrap();
    let builder = scout_of(provider).system_prompt("another").hook(hook(&memory));
    let (mut agent, ctx) = (Chat::new(builder), ToolContext::default());
    let error = agent.run(start, &ctx).durable(context).await.unwrap_err();
    assert!(matches!(error, LoopError::Durable(DurableError::NonDeterminism { .. })), "{error:?}");
    memory.check_closed();
    assert_eq!(attribute(&memory.one(RUN), "error.type").as_deref(), Some("NonDeterminism"));
}
