//! Runs in which a hook rejects a text. The rejected text is not stored, and work that finished earlier is kept. A hook
//! can delay streamed text until its check.

use std::pin::pin;

use futures_util::FutureExt;
use neuron_loop::{Conversation, LoopError, OnLimit};
use neuron_testing::Reply;
use neuron_types::{
    ActivityOptions, ApprovalDecisions, BoxedLayer, BufferedDeltas, CompletionRequest,
    CompletionResponse, ContentBlock, ContextError, ContextStrategy, DeltaSink, DurableContext,
    DurableError, HookAction, HookError, HookEvent, Message, ModelCall, ModelLayer, ModelNext,
    ObservabilityHook, PermissionDecision, PermissionPolicy, ProviderError, RequestRef, Role,
    StreamEvent, ToolContext, ToolOutput,
};
use serde_json::{Value, json};

use crate::support::*;

/// A hook with a model layer that ends the run if a text contains `bad`. Tool results are checked, and removed like
/// other input, only if `rejects_results` is set. If `holds_back` is set, streamed text is delayed until the response
/// is checked.
#[derive(Clone, Default)]
struct Guard {
    log: Log,
    rejects_results: bool,
    holds_back: bool,
}

fn says(messages: &[Message], is_wanted: impl Fn(&ContentBlock) -> bool) -> bool {
    let blocks = messages.iter().flat_map(|message| &message.content);
    blocks.filter(|block| is_wanted(block)).any(|block| block.to_string().contains("bad"))
}

impl ObservabilityHook for Guard {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    fn layer(&self) -> Option<BoxedLayer> {
        Some(BoxedLayer::new(self.clone()))
    }
}

impl ModelLayer for Guard {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        let new = call.new_messages;
        let texts: Vec<String> = new.iter().map(Message::text).collect();
        self.log.push(format!("checks {}", texts.join("|")));
        let is_result = |block: &ContentBlock| block.as_tool_result_id().is_some();
        if says(new, |block| self.rejects_results || !is_result(block)) {
            next.take_back_input(self.rejects_results);
            return Err(call.rejected("no", self.rejects_results));
        }
        let held = next.sink().filter(|_| self.holds_back).map(BufferedDeltas::new);
        let inner = held.as_ref().map_or(next, |held| next.with_sink(held));
        let response = inner.run(call).await?;
        let text = format!("{}{}", call.said_before, response.message.text());
        self.log.push(format!("judges {text} {:?}", call.output_tool));
        let is_output = |block: &ContentBlock| {
            let name = block.as_tool_use().map(|call| call.name);
            name.is_some() && name == call.output_tool
        };
        if text.contains("bad") || says(std::slice::from_ref(&response.message), is_output) {
            return Err(call.rejected("no", false));
        }
        if let Some(held) = &held {
            held.release().await;
        }
        Ok(response)
    }
}

fn of_results() -> Guard {
    Guard { rejects_results: true, ..Guard::default() }
}

fn holding() -> Guard {
    Guard { holds_back: true, ..Guard::default() }
}

/// Runs the agent as a stream. Adds each event to `log`, and returns all lines of the log. A `Guard` that shares the
/// log also adds its checks.
async fn told(agent: &mut Chat<'_>, message: &str, log: &Log) -> Vec<String> {
    let ctx = ToolContext::default();
    let mut events = agent.run_stream(Message::user(message), &ctx).await;
    while let Some(event) = events.recv().await {
        log.push(match event {
            StreamEvent::TextDelta(text) => format!("text {text}"),
            StreamEvent::ThinkingDelta(text) => format!("thinking {text}"),
            StreamEvent::ToolUse { id, .. } => format!("call {id}"),
            StreamEvent::ToolResult { id, .. } => format!("result {id}"),
            StreamEvent::MessageComplete(message) => format!("message {}", message.text()),
            StreamEvent::Reset { attempt, .. } => format!("reset {attempt}"),
            StreamEvent::Usage(_) => "usage".into(),
            StreamEvent::RunComplete(result) => format!("complete {}", result.response),
            StreamEvent::Error(error) => format!("error {error}"),
            _ => continue,
        });
    }
    log.lines()
}

fn user(text: &str) -> Message {
    Message::user(text)
}

/// Regression test. If a run is dropped before its input is checked, the next run must check this input. Before the
/// fix, it was never checked.
#[tokio::test]
async fn unchecked_input_is_checked_in_the_next_run() {
    let setup = setup([Reply::text("fine")]);
    let guard = Guard::default();
    let mut agent = setup.builder.hook(guard.clone()).build();
    let ctx = ToolContext::default();
    drop(agent.run(user("bad"), &ctx));
    let cancelled = ToolContext::default();
    cancelled.cancellation_token.cancel();
    agent.run_text("worse", &cancelled).await.unwrap_err();
    assert_eq!(agent.messages().len(), 1, "the first run was never polled");
    agent.run_text("bad", &ctx).await.unwrap_err();
    assert_eq!(guard.log.lines(), ["checks worse|bad"]);
    assert_eq!(agent.messages(), []);
    agent.run_text("good", &ctx).await.unwrap();
}

/// A guard, which is a hook that checks texts, checks only new messages. A message that was already sent to a model is
/// not new for a later guard, even if the model call failed.
#[tokio::test]
async fn sent_message_is_not_new_for_another_agent() {
    let down = ProviderError::ServiceUnavailable("down".into());
    let setup = setup([Reply::text("hello"), Reply::error(down), Reply::text("fine")]);
    let mut agent = setup.builder.build();
    let ctx = ToolContext::default();
    agent.run_text("bad, and answered", &ctx).await.unwrap();
    agent.run_text("bad", &ctx).await.unwrap_err();
    let guard = Guard::default();
    agent.add_hook(guard.clone());
    agent.continue_run(&ctx).await.unwrap();
    assert_eq!(guard.log.lines(), ["checks ", "judges fine None"]);
}

#[tokio::test]
async fn restored_history_is_checked_from_its_last_response() {
    let history = vec![user("hi"), Message::assistant("hello"), user("unanswered")];
    let setup = setup([Reply::text("a"), Reply::text("b")]);
    let guard = Guard::default();
    let mut agent = setup.builder.messages(history).hook(guard.clone()).build();
    let ctx = ToolContext::default();
    agent.run_text("go", &ctx).await.unwrap();
    // The history has a result without a call, so it is repaired.
    let orphan =
        ContentBlock::ToolResult { tool_use_id: "x".into(), content: Vec::new(), is_error: false };
    let text = ContentBlock::Text("odd".into());
    let odd = Message { role: Role::User, content: vec![orphan, text] };
    agent.run(odd, &ctx).await.unwrap();
    let checks: Vec<String> =
        guard.log.lines().into_iter().filter(|line| line.starts_with("checks")).collect();
    assert_eq!(checks, ["checks unanswered|go", "checks odd"]);
}

#[tokio::test]
async fn results_beside_a_rejected_message_are_kept() {
    let setup = setup([calls([json!({"text": "bad"})]), Reply::text("done")]);
    let mut agent = setup.builder.hook(Guard::default()).build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(user("go"), &ctx);
    steps.next().await.unwrap().unwrap();
    steps.inject_message(user("bad"));
    let Some(Err(error)) = steps.next().await else { panic!("it is rejected") };
    assert_eq!(
        error.to_string(),
        "terminated by hook: no (before that, 1 tool call ran; \
         their results stay in the conversation)"
    );
    assert!(steps.next().await.is_none());
    drop(steps);
    assert_eq!(agent.messages().len(), 3);
    assert_eq!(last_results(agent.messages()), ["c0: bad"], "results are not its concern");
    assert_eq!(agent.continue_run(&ctx).await.unwrap().response, "done");
}

/// A durable context that streams a broken response and then repeats the model call by itself.
struct TriesAgain;

impl DurableContext for TriesAgain {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        _: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        assert!(!says(&request.messages, |_| true));
        Ok(CompletionResponse {
            id: "1".into(),
            model: "m".into(),
            message: Message::assistant("done"),
            usage: Default::default(),
            stop_reason: neuron_types::StopReason::EndTurn,
        })
    }

    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        sink.send(StreamEvent::TextDelta("broken".into())).await;
        let error = ProviderError::StreamError("cut".into()).into();
        sink.send(StreamEvent::Reset { attempt: 2, error }).await;
        sink.send(StreamEvent::TextDelta("done".into())).await;
        self.execute_llm_call(request.to_request(), options).await
    }

    async fn execute_tool(
        &self,
        _: &str,
        _: Value,
        _: &ToolContext,
        _: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        unreachable!("no tool is called")
    }

    no_signals_or_timers!();
}

#[tokio::test]
async fn deltas_of_a_durable_context_are_buffered_too() {
    let setup = setup([Reply::text("unused")]);
    let guard = holding();
    let mut agent = setup.builder.hook(guard.clone()).durability(TriesAgain).build();
    assert_eq!(
        told(&mut agent, "go", &guard.log).await,
        [
            "checks go",
            "reset 2",
            "judges done None",
            "text done",
            "message done",
            "usage",
            "complete done"
        ]
    );
}

#[tokio::test]
async fn rejected_last_call_leaves_no_notice() {
    for (answer, results) in [("bad", "ok"), ("fine", "bad")] {
        for way in WAYS {
            let call = calls([json!({"text": "x"})]);
            let setup = setup([call, Reply::text(answer)]);
            let mut guard = of_results();
            guard.rejects_results = results == "bad";
            let builder = setup.builder.max_turns(1).on_limit(OnLimit::Finalize);
            // The results are rejected, the arguments are not.
            let spoiled = Spoils(results);
            let mut agent = builder.hook(guard).build();
            agent.tools_mut().add_middleware(spoiled);
            let ctx = ToolContext::default();
            let error = run(way, &mut agent, &ctx).await.unwrap_err();
            assert!(error.starts_with("terminated by hook: no (before that, 1"), "{error}");
            check_valid(agent.messages());
            assert_eq!(agent.messages().len(), 3);
            assert!(agent.messages().iter().all(|message| message.role != Role::System));
            assert!(!says(agent.messages(), |_| true));
        }
    }
}

/// Middleware that returns the same result for every tool call without running the tool.
struct Spoils(&'static str);

impl neuron_tool::ToolMiddleware for Spoils {
    fn process<'a>(
        &'a self,
        _: &'a neuron_types::ToolCall,
        _: &'a ToolContext,
        _: neuron_tool::Next<'a>,
    ) -> neuron_types::WasmBoxedFuture<'a, Result<ToolOutput, neuron_types::ToolError>> {
        Box::pin(std::future::ready(Ok(ToolOutput::text(self.0))))
    }
}

struct AskAll;

impl PermissionPolicy for AskAll {
    fn check(&self, _: &str, _: &Value) -> PermissionDecision {
        PermissionDecision::Ask("really?".into())
    }
}

#[tokio::test]
async fn results_of_approved_calls_are_checked_after_the_pause() {
    for (text, restored) in [("bad", false), ("bad", true), ("fine", false), ("fine", true)] {
        let setup = setup([calls([json!({})]), Reply::text("done")]);
        let guard = of_results();
        let builder = setup.builder.permission_policy(AskAll).pause_for_approval(true);
        let mut agent = builder.hook(guard.clone()).build();
        let ctx = ToolContext::default();
        let Err(LoopError::ApprovalRequired(pending)) = agent.run_text("go", &ctx).await else {
            panic!("it waits");
        };
        if restored {
            agent.restore(*pending).unwrap();
        }
        let decisions = ApprovalDecisions::new().supply("c0", ToolOutput::text(text));
        let resumed = agent.resume(decisions, &ctx).await;
        check_valid(agent.messages());
        if text == "bad" {
            let error = resumed.unwrap_err().to_string();
            assert_eq!(error, "terminated by hook: no", "a supplied result is no call that ran");
            let notice = "c0: ![removed: a guardrail rejected the result]";
            assert_eq!(last_results(agent.messages()), [notice]);
            assert_eq!(agent.messages()[0], user("go"), "the message was accepted");
            assert!(agent.pending_calls().is_empty());
        } else {
            assert_eq!(resumed.unwrap().response, "done");
        }
    }
}

/// If the provider paused a response, the hook checks the response with all its parts. In this test, each part alone is
/// acceptable.
#[tokio::test]
async fn paused_response_is_checked_as_a_whole() {
    for way in WAYS {
        let pause = neuron_types::StopReason::PauseTurn;
        let setup = setup([Reply::text("so b").stop_reason(pause), Reply::text("ad it is")]);
        let guard = Guard::default();
        let mut agent = setup.builder.hook(guard.clone()).build();
        run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!(
            guard.log.lines(),
            ["checks go", "judges so b None", "checks ", "judges so bad it is None"]
        );
        assert_eq!(agent.messages(), [user("go"), Message::assistant("so b")]);
    }
}

#[tokio::test]
async fn guard_sees_the_output_tool_of_a_typed_run() {
    let output = |value: &str| Reply::tool_call("1", "final_output", json!({ "value": value }));
    let setup = setup([output("bad"), output("fine")]);
    let guard = Guard::default();
    let mut agent = setup.builder.hook(guard.clone()).build();
    let ctx = ToolContext::default();
    let error = agent.run_typed::<String>(user("go"), &ctx).await.unwrap_err();
    assert!(matches!(error, LoopError::HookTerminated(_)), "{error}");
    assert_eq!(agent.messages(), [user("go")]);
    assert_eq!(agent.run_typed::<String>(user("again"), &ctx).await.unwrap().value, "fine");
    let judged = r#"judges  Some("final_output")"#;
    assert_eq!(guard.log.lines(), ["checks go", judged, "checks again", judged]);
}

/// A context strategy that replaces all messages by a summary, except the last `keep` messages.
struct Summarise {
    keep: usize,
}

impl ContextStrategy for Summarise {
    fn should_compact(&self, messages: &[Message], _: usize) -> bool {
        messages.len() > 3
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        let last = messages.len().saturating_sub(self.keep);
        let mut compacted = vec![user("a summary")];
        compacted.extend_from_slice(&messages[last..]);
        Ok(compacted)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len()
    }
}

/// The messages after the last response that no request has sent yet are new. The stored number of sent messages may be
/// too large.
#[tokio::test]
async fn messages_after_the_last_answer_and_the_last_call_are_new() {
    let history =
        vec![user("a"), Message::assistant("b"), Message::system("c"), user("d"), user("e")];
    let mut stored = serde_json::to_value(Conversation::from(history)).unwrap();
    for (passed, new) in [
        (0, "c|d|e"),
        (1, "c|d|e"),
        (2, "c|d|e"),
        (3, "d|e"),
        (4, "e"),
        (5, ""),
        (6, ""),
        (usize::MAX, ""),
    ] {
        stored["tally"]["passed_messages"] = json!(passed);
        let guard = Guard::default();
        let mut agent = setup([Reply::text("f")]).builder.hook(guard.clone()).build();
        agent.conversation = serde_json::from_value(stored.clone()).unwrap();
        agent.continue_run(&ToolContext::default()).await.unwrap();
        assert_eq!(guard.log.lines()[0], format!("checks {new}"), "{passed}");
    }
}

#[tokio::test]
async fn only_new_messages_are_checked_and_removed_after_a_compaction() {
    for (keep, left) in [(1, vec![user("a summary")]), (0, vec![])] {
        let provider =
            neuron_testing::ScriptedProvider::new([Reply::text("one"), Reply::text("two")]);
        let guard = Guard::default();
        let builder = Chat::builder(provider, Summarise { keep });
        let history = vec![user("a"), Message::assistant("b")];
        let mut agent = builder.messages(history).hook(guard.clone()).build();
        let ctx = ToolContext::default();
        agent.run_text("c", &ctx).await.unwrap();
        assert_eq!(agent.messages().len(), 4);
        // The compaction either keeps the new message, or puts it into the summary.
        let outcome = agent.run_text("bad", &ctx).await;
        if keep == 1 {
            outcome.unwrap_err();
            assert_eq!(agent.messages(), left);
            assert_eq!(guard.log.lines().last().unwrap(), "checks bad");
        } else {
            outcome.unwrap();
            assert_eq!(guard.log.lines()[2], "checks a summary", "who knows what is in it");
        }
    }
}

/// Rejected input is removed from the conversation before the hooks are notified of the end of the run. To show this,
/// the run is dropped during the notification.
#[tokio::test]
async fn rejected_input_is_removed_before_other_hooks_are_notified() {
    struct Hangs;
    impl ObservabilityHook for Hangs {
        async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
            if let HookEvent::RunEnd { .. } = event {
                std::future::pending::<()>().await;
            }
            Ok(HookAction::Continue)
        }
    }
    let setup = setup([Reply::text("unused")]);
    let mut agent = setup.builder.hook(Guard::default()).hook(Hangs).build();
    let ctx = ToolContext::default();
    {
        let mut run = pin!(agent.run_text("bad", &ctx));
        assert!(run.as_mut().now_or_never().is_none());
    }
    assert_eq!(agent.messages(), []);
}
