//! Helpers for the tests. The provider has a script for each agent, and the tools log their calls. An agent can run as
//! a future, as a stream or step by step.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::{
    Agent, AgentBuilder, Conversation, LoopConfig, LoopError, Run, RunEvent, RunResult, Start, Step,
};
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, PermissionDecision,
    PermissionPolicy, Provider, ProviderError, ProviderInfo, StreamHandle, TokenUsage, ToolContext,
    ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture, transcript,
};
use serde_json::{Value, json};

/// A shared log of events, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, part: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(part)).count()
    }
}

/// A provider with one script per agent. The model name identifies the agent.
#[derive(Clone, Default)]
pub(crate) struct Scripts(Arc<BTreeMap<String, ScriptedProvider>>);

impl Scripts {
    pub(crate) fn new<const N: usize>(scripts: [(&str, Vec<Reply>); N]) -> Self {
        let script =
            |(agent, replies): (&str, _)| (agent.to_owned(), ScriptedProvider::new(replies));
        Self(Arc::new(scripts.into_iter().map(script).collect()))
    }

    pub(crate) fn of(&self, agent: &str) -> &ScriptedProvider {
        self.0.get(agent).unwrap_or_else(|| panic!("no script for the agent `{agent}`"))
    }
}

impl Provider for Scripts {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        assert_eq!(transcript::validate(&request.messages), Ok(()));
        Yields(1).await;
        self.of(&request.model).complete(request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        assert_eq!(transcript::validate(&request.messages), Ok(()));
        self.of(&request.model).complete_stream(request).await
    }

    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::default()
    }
}

/// A future that is pending for the given number of polls, and ready at the next poll.
pub(crate) struct Yields(pub(crate) usize);

impl Future for Yields {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A tool that logs its name and the idempotency key of the call. Depending on its arguments, the tool sleeps, hangs,
/// fails or returns a text.
pub(crate) struct Act {
    pub(crate) name: &'static str,
    pub(crate) log: Log,
}

impl ToolDyn for Act {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.into(),
            title: None,
            description: String::new(),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.log.push(format!("{} {}", self.name, ctx.idempotency_key));
            Yields(2).await;
            if let Some(seconds) = input["sleep"].as_u64() {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            if input["hang"] == true {
                std::future::pending::<()>().await;
            }
            match input["fail"].as_str() {
                Some(text) => Err(ToolError::ExecutionFailed(text.into())),
                None => Ok(ToolOutput::text(input["text"].as_str().unwrap_or("ok"))),
            }
        })
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        match input["unfit"] == true {
            true => Err(ToolError::InvalidInput("it does not fit".into())),
            false => Ok(()),
        }
    }
}

pub(crate) fn acting(log: &Log) -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for name in ["act", "other"] {
        tools.register_dyn(Arc::new(Act { name, log: log.clone() }));
    }
    tools
}

/// Returns the configuration of an agent that may use these tools.
pub(crate) fn with_tools(name: &str, tools: &[&str]) -> SubAgentConfig {
    SubAgentConfig {
        model: Some(name.into()),
        tools: tools.iter().map(|&tool| tool.into()).collect(),
        ..Default::default()
    }
}

pub(crate) fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

pub(crate) fn text(text: &str) -> Reply {
    Reply::text(text).usage(usage(10, 1))
}

/// Returns a response that calls tools, given as id, name and arguments.
pub(crate) fn calls<const N: usize>(calls: [(&str, &str, Value); N]) -> Reply {
    Reply::tool_calls(calls).usage(usage(10, 1))
}

/// Returns a model response that calls each of these agents with the prompt `go`. The ids of the calls are `c0`, `c1`,
/// ….
pub(crate) fn asks(agents: &[&str]) -> Reply {
    let task = || json!({ "prompt": "go" });
    let names = agents.iter().enumerate();
    Reply::tool_calls(names.map(|(index, agent)| (format!("c{index}"), *agent, task())))
        .usage(usage(10, 1))
}

/// Starts building an agent `main` with `LoopConfig::default()` instead of the production defaults of the builder.
pub(crate) fn main_agent(scripts: &Scripts, tools: ToolRegistry) -> AgentBuilder {
    Agent::builder(scripts.clone())
        .context(SlidingWindowStrategy::new(100, 1_000_000))
        .config(|config| *config = LoopConfig::default())
        .model("main")
        .tools(tools)
}

/// Builds an agent `main` with the tools and the agents.
pub(crate) fn parent(
    scripts: &Scripts,
    log: &Log,
    agents: impl IntoIterator<Item = (&'static str, SubAgentConfig)>,
) -> AgentBuilder {
    let mut manager = SubAgentManager::new();
    for (name, config) in agents {
        manager.register(name, config);
    }
    let mut tools = acting(log);
    manager.add_to(&mut tools, scripts.clone()).unwrap();
    main_agent(scripts, tools)
}

/// An agent with one conversation.
pub(crate) struct Chat {
    agent: Agent,
    pub(crate) conversation: Conversation,
}

impl Chat {
    pub(crate) fn new(builder: AgentBuilder) -> Self {
        Self { agent: builder.build(), conversation: Conversation::new() }
    }

    pub(crate) fn run<'a>(&'a mut self, start: impl Into<Start>, ctx: &'a ToolContext) -> Run<'a> {
        self.agent.run(&mut self.conversation, start).context(ctx)
    }

    pub(crate) fn messages(&self) -> &[Message] {
        self.conversation.messages()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    Run,
    Stream,
    Step,
}

pub(crate) const WAYS: [Way; 3] = [Way::Run, Way::Stream, Way::Step];

/// Runs the agent with the user message `start`, as a future, as a stream or step by step.
pub(crate) async fn run(
    way: Way,
    agent: &mut Chat,
    ctx: &ToolContext,
) -> Result<RunResult, LoopError> {
    run_from(way, agent, "start", ctx).await
}

/// Runs the agent from `start`. `way` selects a run as a future, as a stream or step by step.
pub(crate) async fn run_from(
    way: Way,
    agent: &mut Chat,
    start: impl Into<Start>,
    ctx: &ToolContext,
) -> Result<RunResult, LoopError> {
    let run = agent.run(start, ctx);
    match way {
        Way::Run => run.await,
        Way::Stream => {
            let mut events = run.stream();
            loop {
                if let RunEvent::Ended(result) = events.next().await.expect("an end")? {
                    return Ok(result);
                }
            }
        }
        Way::Step => {
            let mut steps = run.steps();
            loop {
                if let Step::Ended(result) = steps.next().await.expect("an end")? {
                    return Ok(result);
                }
            }
        }
    }
}

/// Returns the tool results of the last message with tool results, each as `ID: TEXT`. The text of an error starts with
/// `!`.
#[track_caller]
pub(crate) fn last_results(messages: &[Message]) -> Vec<String> {
    assert_eq!(transcript::validate(messages), Ok(()));
    let is_result = |block: &ContentBlock| block.as_tool_result_id().is_some();
    let message = messages.iter().rev().find(|message| message.content.iter().any(is_result));
    let text = |block: &ContentBlock| match block {
        ContentBlock::ToolResult { tool_use_id, content, is_error } => {
            format!("{tool_use_id}: {}{}", if *is_error { "!" } else { "" }, content[0])
        }
        other => other.to_string(),
    };
    message.expect("tool results").content.iter().map(text).collect()
}

/// A policy that requires an approval for calls of these tools, and allows all others.
pub(crate) struct AsksAbout(pub(crate) &'static [&'static str]);

impl PermissionPolicy for AsksAbout {
    fn check(&self, tool_name: &str, _: &Value) -> PermissionDecision {
        match self.0.contains(&tool_name) {
            true => PermissionDecision::Ask(format!("{tool_name}?")),
            false => PermissionDecision::Allow,
        }
    }
}

/// Configures an agent to pause its run if a tool call needs an approval.
pub(crate) fn pausing(builder: AgentBuilder) -> AgentBuilder {
    builder.config(|config| config.pause_for_approval = true)
}

/// Polls a future up to `times` times without waiting for its waker. Returns `None` if the future is still pending.
pub(crate) fn poll_times<F: Future>(mut future: Pin<&mut F>, times: usize) -> Option<F::Output> {
    let mut cx = Context::from_waker(Waker::noop());
    (0..times).find_map(|_| match future.as_mut().poll(&mut cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    })
}
