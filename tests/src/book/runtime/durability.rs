//! Tests the code and the statements of the section "DurableContext" of neuron's book.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_context::SlidingWindowStrategy;
use neuron_durable_sqlite::SqliteDurableContext;
use neuron_loop::{Agent, AgentLoop, Conversation};
use neuron_runtime::LocalDurableContext;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, AgentResult, CompletionRequest, CompletionResponse, DurableContext,
    DurableError, HookAction, HookError, HookEvent, LoopError, Message, ObservabilityHook,
    Provider, RetryPolicy, ToolContext, ToolOutput,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Shout;

/// A durable context that calls the provider and the tools directly, without a journal. This is the code of the section
/// "The Trait" of neuron's book.
struct PassThrough<P> {
    provider: Arc<P>,
    tools: Arc<ToolRegistry>,
}

impl<P: Provider> DurableContext for PassThrough<P> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        _options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        let answered = self.provider.complete(request).await;
        answered.map_err(|error| DurableError::Other(Box::new(error)))
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        _options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let ran = self.tools.execute(tool_name, input, ctx).await;
        ran.map_err(|error| DurableError::ActivityFailed(error.to_string()))
    }

    async fn wait_for_signal<T: DeserializeOwned>(
        &self,
        _signal_name: &str,
        _timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        Err(DurableError::SignalTimeout)
    }

    fn should_continue_as_new(&self) -> bool {
        false
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        Err(DurableError::ContinueAsNew(state.to_string()))
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await
    }

    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// Tests the section "LocalDurableContext" of neuron's book.
#[tokio::test]
async fn agent_runs_with_a_local_durable_context() {
    let my_provider = ScriptedProvider::new([Reply::text("hi")]);
    let context = SlidingWindowStrategy::new(20, 100_000);
    let mut agent = AgentLoop::builder(my_provider.clone(), context).build();

    use neuron_runtime::LocalDurableContext;
    use neuron_tool::ToolRegistry;
    use std::sync::Arc;

    let provider = Arc::new(my_provider);
    let tools = Arc::new(ToolRegistry::new());
    let durable = LocalDurableContext::new(provider, tools);

    // Use in the agent loop
    agent.set_durability(durable);

    assert_eq!(agent.run_text("hi", &ToolContext::default()).await.unwrap().response, "hi");
}

/// Runs an agent with [`PassThrough`], a custom durable context.
#[tokio::test]
async fn agent_runs_with_a_custom_durable_context() {
    let provider = ScriptedProvider::new([
        Reply::tool_call("c1", "shout", json!({ "text": "hi" })),
        Reply::text("HI"),
    ]);
    let mut tools = ToolRegistry::new();
    tools.register(Shout);
    let mut agent = AgentLoop::builder(provider.clone(), SlidingWindowStrategy::new(20, 100_000))
        .tools(tools.clone())
        .build();

    let provider = Arc::new(provider);
    let tools = Arc::new(tools);
    let durable = PassThrough { provider, tools };

    // Use in the agent loop
    agent.set_durability(durable);

    let result = agent.run_text("shout", &ToolContext::default()).await;
    assert_eq!(result.unwrap().response, "HI");
}

/// Contains the code of the section "In production, swap LocalDurableContext" of neuron's book. Runs an agent with any
/// durable context.
async fn calling_code(
    provider: Arc<ScriptedProvider>,
    tools: Arc<ToolRegistry>,
    durable: impl DurableContext,
) -> AgentResult {
    let mut agent = AgentLoop::builder(provider, SlidingWindowStrategy::new(20, 100_000))
        .tools((*tools).clone())
        .build();
    agent.set_durability(durable);
    agent.run_text("shout", &ToolContext::default()).await.unwrap()
}

/// Runs one agent function with a local durable context and with a journal. The book states "The calling code stays the
/// same".
#[tokio::test]
async fn calling_code_works_with_a_journal() {
    let script = || {
        let call = Reply::tool_call("c1", "shout", json!({ "text": "hi" }));
        Arc::new(ScriptedProvider::new([call, Reply::text("HI")]))
    };
    let mut tools = ToolRegistry::new();
    tools.register(Shout);
    let tools = Arc::new(tools);

    let provider = script();
    let durable = LocalDurableContext::new(provider.clone(), tools.clone());
    let locally = calling_code(provider, tools.clone(), durable).await;
    assert_eq!(locally.response, "HI");

    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs.db");
    let open = |provider: &Arc<ScriptedProvider>| {
        let (provider, tools) = (provider.clone(), tools.clone());
        let runs = runs.clone();
        async move { SqliteDurableContext::open(runs, "run-1", provider, tools).await.unwrap() }
    };
    let provider = script();
    let journaled = calling_code(provider.clone(), tools.clone(), open(&provider).await).await;
    assert_eq!(journaled, locally);
    assert_eq!(provider.calls(), 2);

    // Simulates a restart of the process. The model has no more replies, so all results must come from the journal.
    let silent = Arc::new(ScriptedProvider::new(Vec::<Reply>::new()));
    let replayed = calling_code(silent.clone(), tools.clone(), open(&silent).await).await;
    assert_eq!(replayed, locally);
    assert_eq!(silent.calls(), 0);
}

/// Checks the book's statement "All other behavior (hooks, compaction, cancellation) works the same way".
#[tokio::test]
async fn durable_run_has_the_same_hooks_compaction_and_cancellation() {
    /// A hook that records the names of the events, in order.
    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<Vec<String>>>);

    impl ObservabilityHook for Names {
        async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
            let text = format!("{event:?}");
            let name = text.split([' ', '(', '{']).next().unwrap_or_default();
            self.0.lock().unwrap().push(name.to_owned());
            Ok(HookAction::Continue)
        }
    }

    fn parts() -> (Arc<ScriptedProvider>, Arc<ToolRegistry>) {
        let call = Reply::tool_call("c1", "shout", json!({ "text": "hi" }));
        let provider = ScriptedProvider::new([call, Reply::text("done")]);
        let mut tools = ToolRegistry::new();
        tools.register(Shout);
        (Arc::new(provider), Arc::new(tools))
    }

    async fn run(journal: Option<&Path>) -> (Vec<String>, Vec<Message>) {
        let (provider, tools) = parts();
        let names = Names::default();
        let long = "word ".repeat(100);
        let earlier = (0..4).flat_map(|_| [Message::user(&*long), Message::assistant(&*long)]);
        let agent = Agent::builder(provider.clone())
            .context(SlidingWindowStrategy::new(2, 100))
            .tools((*tools).clone())
            .hook(names.clone())
            .build();
        let mut conversation = Conversation::from(earlier.collect::<Vec<_>>());
        let mut run = agent.run(&mut conversation, "shout");
        if let Some(path) = journal {
            let durable = SqliteDurableContext::open(path, "run-1", provider, tools).await.unwrap();
            run = run.durable(durable);
        }
        assert_eq!(run.await.unwrap().response, "done");
        let names = names.0.lock().unwrap().clone();
        (names, conversation.messages().to_vec())
    }

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    // Hooks and compaction have the same events and messages with a journal.
    let plain = run(None).await;
    assert!(plain.0.iter().any(|name| name == "ContextCompaction"), "{:?}", plain.0);
    assert_eq!(run(Some(&path)).await, plain);
    // A replay has the same events and messages too.
    assert_eq!(run(Some(&path)).await, plain);

    // After a cancellation, the run has ended, the conversation is valid, and the journal can be opened again.
    let cancelled = tokio_util::sync::CancellationToken::new();
    cancelled.cancel();
    let ctx = ToolContext { cancellation_token: cancelled, ..Default::default() };
    let provider = Arc::new(ScriptedProvider::new([Reply::text("never asked")]));
    let other = folder.path().join("other.db");
    let tools = Arc::new(ToolRegistry::new());
    let durable =
        SqliteDurableContext::open(&other, "run-1", provider.clone(), tools.clone()).await.unwrap();
    let mut agent = AgentLoop::builder(provider.clone(), SlidingWindowStrategy::new(20, 100_000))
        .durability(durable)
        .build();
    let error = agent.run_text("hi", &ctx).await.unwrap_err();
    assert!(matches!(error, LoopError::Cancelled), "{error}");
    assert_eq!(provider.calls(), 0);
    drop(agent);
    assert!(SqliteDurableContext::open(&other, "run-1", provider, tools).await.is_ok());
}

/// Tests the section "ActivityOptions" of neuron's book.
#[test]
fn activity_options_are_built_as_printed() {
    let options = ActivityOptions {
        start_to_close_timeout: Duration::from_secs(30),
        heartbeat_timeout: Some(Duration::from_secs(10)),
        retry_policy: Some(RetryPolicy {
            initial_interval: Duration::from_secs(1),
            backoff_coefficient: 2.0,
            maximum_attempts: 3,
            maximum_interval: Duration::from_secs(30),
            non_retryable_errors: vec!["Authentication".to_string()],
        }),
    };
    let policy = options.retry_policy.unwrap();
    let key = neuron_types::ProviderError::Authentication("bad key".into());
    assert_eq!(policy.non_retryable_errors, [key.kind()]);
}
