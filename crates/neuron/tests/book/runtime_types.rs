//! Runtime: the traits and types of the chapter that live in `neuron-types`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, DurableContext, DurableError, Message,
    PermissionDecision, PermissionPolicy, Provider, RetryPolicy, Sandbox, SandboxError, Session,
    SessionState, SessionStorage, SessionSummary, StorageError, TokenUsage, Tool, ToolContext,
    ToolDefinition, ToolDyn, ToolError, ToolOutput,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// "SessionStorage Trait": in memory, with the signatures as printed.
#[derive(Clone, Default)]
struct InMemory(Arc<RwLock<HashMap<String, Session>>>);

impl SessionStorage for InMemory {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        let mut sessions = self.0.write().unwrap();
        sessions.insert(session.id.clone(), session.clone());
        Ok(())
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        let sessions = self.0.read().unwrap();
        let found = sessions.get(id).cloned();
        found.ok_or_else(|| StorageError::NotFound(id.to_string()))
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        let sessions = self.0.read().unwrap();
        Ok(sessions.values().map(Session::summary).collect())
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        let removed = self.0.write().unwrap().remove(id);
        removed.map(drop).ok_or_else(|| StorageError::NotFound(id.to_string()))
    }
}

/// "Quick Example", with a storage of one's own.
async fn quick_example(storage: impl SessionStorage) -> Result<(), Box<dyn std::error::Error>> {
    let mut session = Session::new("s-1", PathBuf::from("."));
    session.messages.push(Message::user("Hello"));
    storage.save(&session).await?;

    // Load it back later
    let loaded = storage.load("s-1").await?;
    println!("{} messages", loaded.messages.len());

    assert_eq!(loaded, session);
    Ok(())
}

#[tokio::test]
async fn a_storage_of_ones_own_saves_loads_lists_and_deletes() {
    let storage = InMemory::default();
    quick_example(storage.clone()).await.unwrap();

    let summaries = storage.list().await.unwrap();
    for s in &summaries {
        println!("{}: {} messages, created {}", s.id, s.message_count, s.created_at);
    }
    assert_eq!((summaries.len(), summaries[0].message_count), (1, 1));
    storage.delete("s-1").await.unwrap();
    let missing = storage.load("s-1").await.unwrap_err();
    assert_eq!(missing.to_string(), "session not found: s-1");
}

/// "Session Type"
#[test]
fn a_session_has_the_fields_of_the_table() {
    let mut session = Session::new("chat-42", "/home/user/project".into());
    session.messages.push(Message::user("What is Rust?"));
    session.state.custom.insert("theme".to_string(), serde_json::json!("dark"));

    let Session { id, messages, state, created_at, updated_at } = session;
    let (id, messages): (String, Vec<Message>) = (id, messages);
    let (created_at, updated_at): (DateTime<Utc>, DateTime<Utc>) = (created_at, updated_at);
    assert_eq!((id.as_str(), messages.len()), ("chat-42", 1));
    assert_eq!(created_at, updated_at);
    let SessionState { cwd, token_usage, event_count, custom } = state;
    assert_eq!(cwd, PathBuf::from("/home/user/project"));
    assert_eq!((token_usage, event_count), (TokenUsage::default(), 0));
    assert_eq!(custom["theme"], "dark");
}

/// "Session persistence with AgentLoop"
async fn persistence<P: Provider>(
    provider: P,
    resumed: P,
    storage: impl SessionStorage,
) -> Result<Vec<Message>, Box<dyn std::error::Error>> {
    let context = SlidingWindowStrategy::new(20, 100_000);
    let mut agent = AgentLoop::builder(provider, context.clone()).build();
    let (provider, tools, ctx) = (resumed, ToolRegistry::new(), ToolContext::default());

    // --- Save after a conversation ---
    let result = agent.run_text("Hello!", &ctx).await?;

    let mut session = Session::new("session-123", std::env::current_dir()?);
    session.messages = result.messages.clone();
    session.state.token_usage = result.usage.clone();

    storage.save(&session).await?;

    // --- Resume later (new process) ---
    let loaded = storage.load("session-123").await?;

    // Build a new agent and continue the conversation
    let mut agent = AgentLoop::builder(provider, context)
        .tools(tools)
        .system_prompt("You are a helpful assistant.")
        // The book loads the history and forgets to hand it over.
        .messages(loaded.messages)
        .build();

    // Feed the loaded history back by running with the conversation context
    // The previous messages provide continuity
    let resume_msg = Message::user("Continue where we left off.");
    let result = agent.run(resume_msg, &ctx).await?;
    Ok(result.messages)
}

#[tokio::test]
async fn a_saved_conversation_continues_in_another_agent() {
    let (first, second) = (
        ScriptedProvider::new([Reply::text("Hi!")]),
        ScriptedProvider::new([Reply::text("We were greeting.")]),
    );
    let messages = persistence(first, second.clone(), InMemory::default());
    let expected = [
        Message::user("Hello!"),
        Message::assistant("Hi!"),
        Message::user("Continue where we left off."),
        Message::assistant("We were greeting."),
    ];
    assert_eq!(messages.await.unwrap(), expected);
    assert_eq!(second.requests()[0].messages, expected[..3]);
}

struct ReadOnlyPolicy;
impl PermissionPolicy for ReadOnlyPolicy {
    fn check(&self, tool_name: &str, _input: &serde_json::Value) -> PermissionDecision {
        match tool_name {
            "read_file" | "list_dir" => PermissionDecision::Allow,
            _ => PermissionDecision::Deny(format!("{tool_name} is not allowed in read-only mode")),
        }
    }
}

#[test]
fn a_policy_allows_denies_or_asks() {
    let answer = |decision| match decision {
        PermissionDecision::Allow => "allowed".to_owned(),
        PermissionDecision::Deny(reason) => reason,
        PermissionDecision::Ask(prompt) => prompt,
    };
    assert_eq!(answer(ReadOnlyPolicy.check("read_file", &json!({}))), "allowed");
    assert_eq!(
        answer(ReadOnlyPolicy.check("rm", &json!({}))),
        "rm is not allowed in read-only mode"
    );
    assert_eq!(answer(PermissionDecision::Ask("sure?".into())), "sure?");
}

/// "The Trait": a pass-through with the signatures as printed.
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

/// "LocalDurableContext", with a context of one's own.
#[tokio::test]
async fn an_agent_runs_through_a_durable_context() {
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

/// "ActivityOptions"
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

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ShoutArgs {
    text: String,
}

struct Shout;

impl Tool for Shout {
    const NAME: &'static str = "shout";
    type Args = ShoutArgs;
    type Output = String;
    type Error = ToolError;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "shout".into(),
            title: None,
            description: "Shouts".into(),
            input_schema: schemars::schema_for!(ShoutArgs).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    async fn call(&self, args: ShoutArgs, _ctx: &ToolContext) -> Result<String, ToolError> {
        Ok(args.text.to_uppercase())
    }
}

#[expect(dead_code, reason = "as printed")]
struct DockerSandbox {
    image: String,
}

#[expect(unused_variables, clippy::todo, reason = "as printed")]
impl Sandbox for DockerSandbox {
    async fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: serde_json::Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, SandboxError> {
        // Spawn a container, execute tool inside, return output
        todo!()
    }
}

/// A sandbox that does something.
struct Logged {
    image: String,
}

impl Sandbox for Logged {
    async fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: serde_json::Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, SandboxError> {
        let failed =
            |error: ToolError| SandboxError::ExecutionFailed(format!("{}: {error}", self.image));
        tool.call_dyn(input, ctx).await.map_err(failed)
    }
}

async fn in_sandbox(
    sandbox: impl Sandbox,
    tool: Arc<dyn ToolDyn>,
    input: Value,
) -> Result<ToolOutput, SandboxError> {
    let ctx = ToolContext::default();
    let output = sandbox.execute_tool(&*tool, input, &ctx).await?;
    Ok(output)
}

#[tokio::test]
async fn a_sandbox_of_ones_own_runs_erased_tools() {
    let sandbox = || Logged { image: "alpine".into() };
    let output = in_sandbox(sandbox(), Arc::new(Shout), json!({ "text": "hi" }));
    assert_eq!(output.await.unwrap(), ToolOutput::text("HI"));
    let error = in_sandbox(sandbox(), Arc::new(Shout), json!({})).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "execution failed in the sandbox: alpine: invalid input: arguments of `shout`: missing \
         field `text`"
    );
}
