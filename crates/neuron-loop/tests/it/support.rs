//! Tools, hooks and strategies that the tests share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentResult;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ContentBlock, HookAction, HookError, HookEvent, HookScope, Message, ObservabilityHook,
    ResumedApproval, Role, StreamEvent, ToolContext, ToolDefinition, ToolDyn, ToolError,
    ToolOutput, WasmBoxedFuture, transcript,
};
use serde_json::{Value, json};

pub(crate) use crate::chat::*;

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

/// A tool that acts according to its arguments, and logs its calls. With `delay`, it first waits this number of
/// milliseconds. `retry`, `fail`, `cancelled`, `hang` or `panic` then selects how the call ends. By default it returns
/// `text`.
#[derive(Clone)]
pub(crate) struct Act {
    pub(crate) name: &'static str,
    pub(crate) log: Log,
}

impl ToolDyn for Act {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        Self::definition_of(self.name)
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.log.push(format!("start {}", ctx.call_id));
            let watch = Watch(self.log.clone(), ctx.call_id.clone());
            if let Some(delay) = input["delay"].as_u64() {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            let result = if let Some(hint) = input["retry"].as_str() {
                Err(ToolError::ModelRetry(hint.into()))
            } else if let Some(text) = input["fail"].as_str() {
                Err(ToolError::ExecutionFailed(text.into()))
            } else if !input["cancelled"].is_null() {
                ctx.cancellation_token.cancelled().await;
                self.log.push(format!("told {}", ctx.call_id));
                Err(ToolError::Cancelled)
            } else if !input["hang"].is_null() {
                std::future::pending().await
            } else if !input["panic"].is_null() {
                panic!("the tool panics")
            } else {
                let text = input["text"].as_str().unwrap_or("ok");
                Ok(ToolOutput {
                    structured_content: Some(json!({ "echo": text })),
                    ..ToolOutput::text(text)
                })
            };
            std::mem::forget(watch);
            self.log.push(format!("end {}", ctx.call_id));
            result
        })
    }
}

impl Act {
    pub(crate) fn definition_of(name: &str) -> ToolDefinition {
        ToolDefinition {
            name: name.into(),
            title: None,
            description: String::new(),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }
}

/// A guard inside the future of a tool call. Its drop is logged, which shows that the future was dropped.
struct Watch(Log, String);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.push(format!("dropped {}", self.1));
    }
}

/// A tool that logs the idempotency key of each call. It asserts that the context of the call contains no
/// [`ResumedApproval`].
pub(crate) struct Keys(pub(crate) Log);

impl ToolDyn for Keys {
    fn name(&self) -> &str {
        "act"
    }

    fn definition(&self) -> ToolDefinition {
        Act::definition_of("act")
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        self.0.push(ctx.idempotency_key.clone());
        assert!(ctx.extensions.get::<ResumedApproval>().is_none());
        Box::pin(async { Ok(ToolOutput::text("ok")) })
    }
}

pub(crate) fn registry(log: &Log) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.register_dyn(Arc::new(Act { name: "act", log: log.clone() }));
    registry
}

/// Returns a response that calls the tool `act` once with each of the inputs. The call ids are `c0`, `c1`, ….
pub(crate) fn calls(inputs: impl IntoIterator<Item = Value>) -> Reply {
    let name = |(index, input)| (format!("c{index}"), "act", input);
    Reply::tool_calls(inputs.into_iter().enumerate().map(name))
}

pub(crate) fn window() -> SlidingWindowStrategy {
    SlidingWindowStrategy::new(100, 1_000_000)
}

/// A builder of an agent with a scripted provider and the tool `act`. Also contains this provider and the log of the
/// tool.
pub(crate) struct Setup {
    pub(crate) provider: ScriptedProvider,
    pub(crate) log: Log,
    pub(crate) builder: ChatBuilder<'static>,
}

pub(crate) fn setup<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Setup {
    let provider = ScriptedProvider::new(replies);
    let log = Log::default();
    let builder = Chat::builder(provider.clone(), window()).tools(registry(&log));
    Setup { provider, log, builder }
}

/// A hook that logs every event as a line, and returns the configured actions.
#[derive(Clone, Default)]
pub(crate) struct Recorder {
    pub(crate) log: Log,
    /// The action for each event whose log line starts with the given prefix.
    pub(crate) answers: Vec<(&'static str, HookAction)>,
}

impl Recorder {
    pub(crate) fn answering(line: &'static str, action: HookAction) -> Self {
        Self { log: Log::default(), answers: vec![(line, action)] }
    }
}

impl ObservabilityHook for Recorder {
    async fn on_event(&self, _event: HookEvent<'_>) -> Result<HookAction, HookError> {
        unreachable!("the loop calls on_event_in")
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        let line = match event {
            HookEvent::PreLlmCall { request } => format!("PreLlm {}", request.messages.len()),
            HookEvent::PostLlmCall { response } => format!("PostLlm {:?}", response.stop_reason),
            HookEvent::PreToolExecution { tool_name, input } => {
                format!("PreTool {tool_name} {} {input}", scope.call_id.unwrap())
            }
            HookEvent::PostToolExecution { tool_name, output } => {
                let text = output.content.first().map(ToString::to_string).unwrap_or_default();
                format!(
                    "PostTool {tool_name} {} {} {text}",
                    scope.call_id.unwrap(),
                    if output.is_error { "error" } else { "ok" }
                )
            }
            HookEvent::ToolError { tool_name, error } => {
                format!("ToolError {tool_name} {} {error}", scope.call_id.unwrap())
            }
            HookEvent::LlmError { error } => format!("LlmError {error}"),
            HookEvent::RunEnd { result: Ok(result) } => format!("RunEnd ok {}", result.turns),
            HookEvent::RunEnd { result: Err(error) } => format!("RunEnd {error}"),
            HookEvent::LoopIteration { turn } => {
                assert_eq!(turn, scope.turn);
                format!("Turn {turn}")
            }
            HookEvent::RunStart { run_id } => {
                assert_eq!(run_id, scope.run_id);
                "RunStart".into()
            }
            HookEvent::SessionStart { session_id } => format!("SessionStart {session_id}"),
            HookEvent::SessionEnd { session_id } => format!("SessionEnd {session_id}"),
            HookEvent::FirstChunk => "FirstChunk".into(),
            HookEvent::ContextCompaction { old_tokens, new_tokens } => {
                format!("Compacted {old_tokens} {new_tokens}")
            }
            _ => unreachable!("a new event"),
        };
        let answer = self.answers.iter().find(|(start, _)| line.starts_with(start));
        self.log.push(line);
        Ok(answer.map_or(HookAction::Continue, |(_, action)| action.clone()))
    }
}

/// Asserts that every `Pre…` line is followed by exactly one `Post…` or error line.
#[track_caller]
pub(crate) fn check_pairs(lines: &[String]) {
    let (mut llm, mut tools) = (0, std::collections::BTreeMap::new());
    for line in lines {
        let id = line.split(' ').nth(2).unwrap_or_default().to_owned();
        match line.split(' ').next().unwrap() {
            "PreLlm" => llm += 1,
            "PostLlm" | "LlmError" => llm -= 1,
            "PreTool" => *tools.entry(id).or_insert(0) += 1,
            "PostTool" | "ToolError" => *tools.entry(id).or_insert(0) -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&llm), "{lines:#?}");
        assert!(tools.values().all(|open| (0..=1).contains(open)), "{lines:#?}");
    }
    assert!(llm == 0 && tools.values().all(|open| *open == 0), "{lines:#?}");
}

#[track_caller]
pub(crate) fn check_valid(messages: &[Message]) {
    assert_eq!(transcript::validate(messages), Ok(()), "{messages:#?}");
    assert!(messages.iter().all(|message| !message.content.is_empty()), "{messages:#?}");
}

/// Returns the tool results in the last user message as `ID: TEXT`. For an error result, `!` precedes the text.
#[track_caller]
pub(crate) fn last_results(messages: &[Message]) -> Vec<String> {
    let results = |message: &&Message| {
        message.content.iter().any(|block| matches!(block, ContentBlock::ToolResult { .. }))
    };
    let message = messages.iter().rev().find(results).expect("tool results");
    assert_eq!(message.role, Role::User);
    let text = |block: &ContentBlock| match block {
        ContentBlock::ToolResult { tool_use_id, content, is_error } => {
            let mark = if *is_error { "!" } else { "" };
            format!("{tool_use_id}: {mark}{}", content[0])
        }
        other => other.to_string(),
    };
    message.content.iter().map(text).collect()
}

/// The three ways to run an agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    Run,
    Stream,
    Step,
}

pub(crate) const WAYS: [Way; 3] = [Way::Run, Way::Stream, Way::Step];

/// Runs an agent with the message "go", in one of the three ways to run. Returns an error as text.
pub(crate) async fn run(
    way: Way,
    agent: &mut Chat<'_>,
    ctx: &ToolContext,
) -> Result<AgentResult, String> {
    let message = Message::user("go");
    match way {
        Way::Run => agent.run(message, ctx).await.map_err(|error| error.to_string()),
        Way::Stream => {
            let mut events = agent.run_stream(message, ctx).await;
            let mut last = None;
            while let Some(event) = events.recv().await {
                assert!(last.is_none(), "nothing follows the terminal event: {event:?}");
                match event {
                    StreamEvent::RunComplete(result) => last = Some(Ok(*result)),
                    StreamEvent::Error(error) => last = Some(Err(error.to_string())),
                    _ => {}
                }
            }
            drop(events);
            last.expect("a terminal event").map(|result: AgentResult| AgentResult {
                messages: agent.messages().to_vec(),
                ..result
            })
        }
        Way::Step => {
            let mut steps = agent.run_step(message, ctx);
            let mut last = None;
            while let Some(turn) = steps.next().await {
                assert!(last.is_none(), "nothing follows the end: {turn:?}");
                match turn {
                    Ok(Step::Ended(result)) => last = Some(Ok(result)),
                    Err(error) => last = Some(Err(error.to_string())),
                    Ok(Step::Tools { calls, results }) => {
                        assert_eq!(calls.len(), results.len());
                    }
                    Ok(Step::Compacted { .. }) => {}
                }
            }
            last.expect("an end")
        }
    }
}

/// Implements the methods of a durable context that most tests do not use.
macro_rules! no_signals_or_timers {
    () => {
        async fn wait_for_signal<T: serde::de::DeserializeOwned>(
            &self,
            _: &str,
            _: std::time::Duration,
        ) -> Result<Option<T>, neuron_types::DurableError> {
            Ok(None)
        }

        fn should_continue_as_new(&self) -> bool {
            false
        }

        async fn continue_as_new(
            &self,
            _: serde_json::Value,
        ) -> Result<(), neuron_types::DurableError> {
            Ok(())
        }

        async fn sleep(&self, _: std::time::Duration) {}

        fn now(&self) -> chrono::DateTime<chrono::Utc> {
            chrono::DateTime::UNIX_EPOCH
        }
    };
}
pub(crate) use no_signals_or_timers;
