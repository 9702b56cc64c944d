//! Helpers for tests, with a temporary journal and a run that can be interrupted at any call. The model and the tool of
//! the run count their calls.

use std::collections::BTreeMap;
use std::fs;
use std::future::{pending, ready};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use neuron_context::SlidingWindowStrategy;
use neuron_durable_sqlite::{JournalError, RunStatus, SqliteDurableContext, SqliteRuns};
use neuron_loop::AgentLoop;
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, CompletionRequest, CompletionResponse, ContentBlock, LoopError, Message, Provider,
    ProviderError, Role, StopReason, StreamHandle, TokenUsage, ToolContext, ToolDefinition,
    ToolDyn, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

/// Time limit for anything that may take long on a busy machine. A passing test does not wait for it.
pub(crate) const HANGING: Duration = Duration::from_secs(60);

/// Returns a path for a database, in a folder that is removed when the first value is dropped.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    (folder, path)
}

/// Returns the contents of all files in a folder and below, by name.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// The script of a run, with a model and a tool. Clones share their counters.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// Number of responses that call the tool, before the last response.
    pub(crate) turns: usize,
    /// Approximate length of a message in bytes.
    pub(crate) bytes: usize,
    /// Number of the model call that never ends, from 0. `None` if all model calls end.
    pub(crate) hangs_at: Option<usize>,
    pub(crate) counts: Arc<Counts>,
}

/// Counters of the calls in this process.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) model: AtomicUsize,
    pub(crate) tool: AtomicUsize,
    pub(crate) hangs: Notify,
}

impl Work {
    pub(crate) fn new(turns: usize, bytes: usize) -> Self {
        Self { turns, bytes, hangs_at: None, counts: Arc::default() }
    }

    /// Returns a copy with new counters, whose model never answers its call number `call`, counted from 0.
    pub(crate) fn hanging_at(&self, call: usize) -> Self {
        Self { hangs_at: Some(call), counts: Arc::default(), ..*self }
    }

    /// Returns a copy with new counters, whose model answers all calls.
    pub(crate) fn again(&self) -> Self {
        Self { hangs_at: None, counts: Arc::default(), ..*self }
    }

    /// Returns the numbers of model calls and tool calls so far.
    pub(crate) fn done(&self) -> (usize, usize) {
        (self.counts.model.load(Ordering::SeqCst), self.counts.tool.load(Ordering::SeqCst))
    }

    pub(crate) fn tools(&self) -> ToolRegistry {
        let mut tools = ToolRegistry::new();
        let (counts, bytes) = (self.counts.clone(), self.bytes);
        add_tool(&mut tools, "echo", move |input, _| {
            counts.tool.fetch_add(1, Ordering::SeqCst);
            let turn = input["turn"].as_u64().unwrap_or_default() as usize;
            ready(ToolOutput::text(text(turn + 1_000_000, bytes)))
        });
        tools
    }

    /// Opens a run.
    pub(crate) async fn open(
        &self,
        runs: &SqliteRuns,
        id: &str,
    ) -> Result<SqliteDurableContext<Self>, JournalError> {
        runs.run(id).open(Arc::new(self.clone()), Arc::new(self.tools())).await
    }

    /// Opens a run and drives it to its end.
    pub(crate) async fn run(&self, runs: &SqliteRuns, id: &str) -> Result<AgentResult, LoopError> {
        self.run_with(self.open(runs, id).await?).await
    }

    /// Drives an open run to its end.
    pub(crate) async fn run_with(
        &self,
        context: SqliteDurableContext<Self>,
    ) -> Result<AgentResult, LoopError> {
        let agent = AgentLoop::builder(self.clone(), whole()).tools(self.tools());
        let mut agent = agent.max_turns(10_000).durability(context).build();
        agent.run(Message::user("go"), &ToolContext::default()).await
    }

    /// Drives the run until the model hangs, and drops the run there.
    pub(crate) async fn run_until_it_hangs(&self, runs: &SqliteRuns, id: &str) {
        tokio::select! {
            ended = self.run(runs, id) => panic!("it ended: {ended:?}"),
            () = self.counts.hangs.notified() => {}
        }
    }
}

/// Waits until a run has this status.
pub(crate) async fn until(runs: &SqliteRuns, id: &str, status: RunStatus) {
    let begin = Instant::now();
    loop {
        let summary = runs.inspect(id).await.unwrap().summary;
        if summary.status == status {
            return;
        }
        assert!(begin.elapsed() < HANGING, "{summary:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns a context strategy that keeps all messages.
pub(crate) fn whole() -> SlidingWindowStrategy {
    SlidingWindowStrategy::new(1_000_000, 1_000_000_000)
}

/// Returns a text of about `bytes` bytes that cannot be compressed.
pub(crate) fn text(seed: usize, bytes: usize) -> String {
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x}", state ^ (state >> 29)));
    }
    text.truncate(bytes);
    text
}

/// A model whose response depends only on the conversation.
impl Provider for Work {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let turn =
            request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        self.counts.model.fetch_add(1, Ordering::SeqCst);
        if self.hangs_at == Some(turn) {
            self.counts.hangs.notify_one();
            pending::<()>().await;
        }
        let mut content = vec![ContentBlock::Text(text(turn, self.bytes))];
        if turn < self.turns {
            let (id, name) = (format!("call-{turn}"), "echo".into());
            content.push(ContentBlock::ToolUse { id, name, input: json!({ "turn": turn }) });
        }
        Ok(CompletionResponse {
            id: format!("answer-{turn}"),
            model: "model".into(),
            message: Message { role: Role::Assistant, content },
            usage: TokenUsage { input_tokens: 10, output_tokens: 1, ..TokenUsage::default() },
            stop_reason: if turn < self.turns { StopReason::ToolUse } else { StopReason::EndTurn },
        })
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("this model does not stream".into()))
    }
}

/// A tool that calls the function `call`. Calls with the same `invoice` argument have the same effect key, so only the
/// first of them runs.
struct FnTool<F> {
    name: &'static str,
    call: F,
}

/// Adds a tool that must not run twice. Each call of the tool calls the function `call`.
pub(crate) fn add_tool<O: Future<Output = ToolOutput> + Send + 'static>(
    tools: &mut ToolRegistry,
    name: &'static str,
    call: impl Fn(Value, ToolContext) -> O + Send + Sync + 'static,
) {
    tools.register_dyn(Arc::new(FnTool { name, call }));
}

impl<F, O> ToolDyn for FnTool<F>
where
    F: Fn(Value, ToolContext) -> O + Send + Sync,
    O: Future<Output = ToolOutput> + Send + 'static,
{
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        let definition = json!({ "name": self.name, "description": "Does it", "input_schema": { "type": "object" } });
        serde_json::from_value(definition).unwrap()
    }

    fn effect_key(&self, input: &Value) -> Option<String> {
        Some(input.get("invoice")?.to_string())
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        let done = (self.call)(input, ctx.clone());
        Box::pin(async { Ok(done.await) })
    }
}
