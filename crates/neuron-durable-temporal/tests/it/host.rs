//! Test helpers for a worker on a separate thread, its agent, and a model and tools that are made of closures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_durable_temporal::{
    AgentWorker, AgentWorkerBuilder, DurableOptions, RunError, ShutdownHandle, TemporalOptions,
    TemporalRun, TemporalRuns,
};
use neuron_loop::{Conversation, LoopConfig, ToolErrorPolicy};
use neuron_testkit::engines::TemporalServer;
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, CompletionRequest, CompletionResponse, ContentBlock, Durability, DurableAgent,
    LoopError, Message, PermissionDecision, PermissionPolicy, Provider, ProviderError, Start,
    StopReason, StreamHandle, TokenUsage, ToolContext, ToolDefinition, ToolDyn, ToolEffect,
    ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};
use temporalio_client::Client;

/// Connects a client to the Temporal server at this address.
pub(crate) async fn connect(address: &str) -> Client {
    neuron_durable_temporal::connect(&format!("http://{address}"), "default").await.unwrap()
}

/// Returns a name that no other test uses.
pub(crate) fn unique(name: &str) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{}-{number}", std::process::id())
}

/// Returns options with a heartbeat timeout of three seconds. A test with a killed worker must not wait long, but a
/// slow machine needs some time.
pub(crate) fn options() -> TemporalOptions {
    durable().into()
}

/// Returns the part of [`options`] that all engines have.
pub(crate) fn durable() -> DurableOptions {
    DurableOptions::new().lease(Duration::from_secs(3))
}

/// Waits for the end of a run, and returns its result.
pub(crate) async fn done(run: &TemporalRun) -> AgentResult {
    run.outcome().await.unwrap().into_result().unwrap()
}

/// Waits for the end of a run, and returns the error that ended it.
pub(crate) async fn failed(run: &TemporalRun) -> RunError {
    run.outcome().await.unwrap().into_result().unwrap_err()
}

/// A task queue on the shared server, with a client for its runs.
pub(crate) struct TestContext {
    pub(crate) address: String,
    pub(crate) queue: String,
    pub(crate) runs: TemporalRuns,
}

impl TestContext {
    /// Creates a context with a new task queue. Returns `None` if no Temporal server is available.
    pub(crate) async fn new(name: &str, options: &TemporalOptions) -> Option<Self> {
        let server = tokio::task::spawn_blocking(TemporalServer::shared).await.unwrap()?;
        Some(Self::on(server, name, options).await)
    }

    pub(crate) async fn on(server: &TemporalServer, name: &str, options: &TemporalOptions) -> Self {
        let (address, queue) = (server.address(), unique(name));
        let runs = TemporalRuns::new(connect(&address).await, &queue)
            .options(options.clone())
            .task_timeout(Duration::from_secs(5));
        Self { address, queue, runs }
    }

    /// Starts a worker for an agent on a separate thread.
    pub(crate) fn serve(
        &self,
        model: Model,
        tools: fn() -> ToolRegistry,
        agent: impl DurableAgent + 'static,
        options: &TemporalOptions,
    ) -> Serving {
        self.serve_with(model, Arc::new(tools()), agent, options)
    }

    pub(crate) fn serve_with(
        &self,
        model: impl Provider + 'static,
        tools: Arc<ToolRegistry>,
        agent: impl DurableAgent + 'static,
        options: &TemporalOptions,
    ) -> Serving {
        self.serve_built(model, tools, agent, options, |builder| builder)
    }

    /// Starts a worker for an agent on a separate thread. `build` changes the settings of the worker.
    pub(crate) fn serve_built(
        &self,
        model: impl Provider + 'static,
        tools: Arc<ToolRegistry>,
        agent: impl DurableAgent + 'static,
        options: &TemporalOptions,
        build: impl FnOnce(AgentWorkerBuilder) -> AgentWorkerBuilder + Send + 'static,
    ) -> Serving {
        let (address, queue) = (self.address.clone(), self.queue.clone());
        let options = options.clone();
        let (ready, shutdown) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let client = connect(&address).await;
                let mut worker = build(AgentWorker::builder(client, queue, model, tools, agent))
                    .options(options)
                    .identity("neuron-test")
                    .sticky_timeout(Duration::from_millis(500))
                    .shutdown_timeout(Duration::from_secs(1))
                    .build()
                    .unwrap();
                ready.send(worker.shutdown_handle()).unwrap();
                worker.run().await.unwrap();
            });
        });
        Serving { shutdown: shutdown.recv().unwrap(), thread: Some(thread) }
    }
}

/// A worker that is shut down when it is dropped.
pub(crate) struct Serving {
    shutdown: ShutdownHandle,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.shutdown.shutdown();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// A model that calls a function for each request and responds with its result.
#[derive(Clone)]
pub(crate) struct Model(Arc<Answers>);

type Answers =
    dyn Fn(&CompletionRequest) -> Result<CompletionResponse, ProviderError> + Send + Sync;

impl Model {
    pub(crate) fn new(
        answer: impl Fn(&CompletionRequest) -> Result<CompletionResponse, ProviderError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self(Arc::new(answer))
    }

    /// Returns a model with scripted responses. The number of responses in the conversation selects the next response.
    pub(crate) fn script(answers: Vec<Vec<ContentBlock>>) -> Self {
        Self::new(move |request| {
            let turn = turns(request);
            Ok(answer(turn, answers.get(turn).expect("the script goes on").clone()))
        })
    }
}

/// Returns the number of responses in the conversation.
pub(crate) fn turns(request: &CompletionRequest) -> usize {
    let is_answer = |message: &&Message| message.role == neuron_types::Role::Assistant;
    request.messages.iter().filter(is_answer).count()
}

pub(crate) fn answer(turn: usize, content: Vec<ContentBlock>) -> CompletionResponse {
    let calls = content.iter().any(|block| matches!(block, ContentBlock::ToolUse { .. }));
    CompletionResponse {
        id: format!("answer-{turn}"),
        model: "scripted".into(),
        message: Message { role: neuron_types::Role::Assistant, content },
        usage: TokenUsage { input_tokens: 10 + turn, output_tokens: 5, ..TokenUsage::default() },
        stop_reason: if calls { StopReason::ToolUse } else { StopReason::EndTurn },
    }
}

pub(crate) fn text(text: impl Into<String>) -> ContentBlock {
    ContentBlock::Text(text.into())
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: name.into(), input }
}

impl Provider for Model {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        (self.0)(&request)
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("no streams here".into()))
    }
}

type Work = dyn Fn(Value, ToolContext) -> WasmBoxedFuture<'static, Result<ToolOutput, ToolError>>
    + Send
    + Sync;

/// A tool that calls a function for each tool call and returns its result.
pub(crate) struct Does {
    name: &'static str,
    effect: ToolEffect,
    work: Arc<Work>,
}

impl Does {
    pub(crate) fn new<F>(
        name: &'static str,
        effect: ToolEffect,
        work: impl Fn(Value, ToolContext) -> F + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        Arc::new(Self {
            name,
            effect,
            work: Arc::new(move |input, ctx| Box::pin(work(input, ctx))),
        })
    }
}

impl ToolDyn for Does {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.into(),
            title: None,
            description: format!("Does {}", self.name),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }

    /// Returns the argument `key` as JSON, or `None` if it is missing.
    fn effect_key(&self, input: &Value) -> Option<String> {
        Some(input.get("key")?.to_string())
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        (self.work)(input, ctx.clone())
    }
}

/// A durable agent for tests, with configurable tools, loop settings and permission policy.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) tools: fn() -> ToolRegistry,
    pub(crate) config: LoopConfig,
    pub(crate) policy: Option<fn(&str, &Value) -> PermissionDecision>,
}

struct Policy(fn(&str, &Value) -> PermissionDecision);

impl PermissionPolicy for Policy {
    fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision {
        (self.0)(tool_name, input)
    }
}

impl Agent {
    pub(crate) fn new(tools: fn() -> ToolRegistry) -> Self {
        let config = LoopConfig {
            system_prompt: "Be nice.".into(),
            parallel_tool_execution: true,
            max_turns: Some(1000),
            tool_errors: ToolErrorPolicy::ReturnToModel,
            ..LoopConfig::default()
        };
        Self { tools, config, policy: None }
    }
}

impl DurableAgent for Agent {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(async move {
            let never =
                Model::new(|_| Err(ProviderError::InvalidRequest("past the engine".into())));
            let window = SlidingWindowStrategy::new(100_000, 100_000_000);
            let agent = neuron_loop::Agent::builder(never)
                .context(window)
                .tools((self.tools)())
                .config(|config| *config = self.config.clone())
                .permission_policy(Policy(self.policy.unwrap_or(|_, _| PermissionDecision::Allow)))
                .build();
            let (mut conversation, ctx) = (Conversation::new(), context());
            let run = agent.run(&mut conversation, start).context(&ctx).durable(durability);
            let result = run.await?;
            Ok(result.with_messages(&conversation))
        })
    }
}

/// Returns a tool context that does not depend on the machine, so that committed histories fit everywhere.
pub(crate) fn context() -> ToolContext {
    let long = "l".repeat(2000);
    let environment = [("REGION", "north"), ("TOKEN", "secret"), ("LONG", &long)];
    ToolContext {
        cwd: "/".into(),
        session_id: "session".into(),
        environment: environment.map(|(name, value)| (name.into(), value.into())).into(),
        ..ToolContext::default()
    }
}

/// Returns the result of an agent that calls no model. `response` is the text of the result.
pub(crate) fn said(response: String) -> Result<AgentResult, LoopError> {
    Ok(AgentResult {
        response,
        messages: Vec::new(),
        usage: TokenUsage::default(),
        turns: 0,
        stop_reason: StopReason::EndTurn,
        limit_reached: None,
    })
}
