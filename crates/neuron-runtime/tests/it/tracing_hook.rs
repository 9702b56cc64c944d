//! Tests of the spans and events that `TracingHook` records.

use std::future::IntoFuture as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use neuron_context::SlidingWindowStrategy;
use neuron_loop::{AgentBuilder, ToolErrorPolicy};
use neuron_runtime::{LocalDurableContext, TracingHook};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, tool_middleware_fn};
use neuron_types::{
    ActivityOptions, Budget, CompletionRequest, ContextError, DurableContext, HookAction,
    HookEvent, HookScope, Message, Money, ObservabilityHook, Operation, OperationKind, OuterCall,
    PermissionDecision, PermissionPolicy, PriceList, ProviderError, TokenUsage, ToolContext,
    UnknownPrice,
};
use serde_json::{Value, json};
use tracing::Level;

use crate::support::*;
use crate::tracing_records::{Fields, Records, Told, share_the_process};

fn agent(replies: impl IntoIterator<Item = Reply>, hook: TracingHook) -> AgentBuilder {
    let tools = registry([Act::new("act", &Log::default())]);
    bare(ScriptedProvider::new(replies)).tools(tools).hook(hook)
}

fn ctx() -> ToolContext {
    ToolContext { run_id: "run-1".into(), session_id: "chat-42".into(), ..Default::default() }
}

fn act(input: Value) -> Reply {
    Reply::tool_call("c1", "act", input)
}

fn fields<const N: usize>(fields: [(&'static str, &str); N]) -> Fields {
    fields.map(|(name, value)| (name, value.to_owned())).into()
}

/// Removes the durations, which differ from run to run.
fn timeless(mut fields: Fields) -> Fields {
    if let Some(millis) = fields.remove("duration_ms") {
        millis.parse::<u64>().unwrap();
    }
    fields
}

/// Runs an agent so that it produces every event in the table of `TracingHook`.
async fn whole_run(hook: TracingHook) -> Records {
    let (records, _guard) = Records::start();
    let replies = [act(json!({ "text": "x".repeat(2_000) })), Reply::text("done")];
    let tools = registry([Act::new("act", &Log::default())]);
    let small = SlidingWindowStrategy::new(1, 100);
    let builder = bare(ScriptedProvider::new(replies)).context(small).tools(tools).hook(hook);
    let mut agent = Chat::new(builder);
    let history = vec![Message::user("a".repeat(2_000)), Message::assistant("b")];
    agent.conversation = history.into();
    agent.run("go", &ctx()).await.unwrap();
    records
}

#[tokio::test]
async fn every_event_is_recorded_as_event_and_span() {
    let hook = TracingHook::new();
    let records = whole_run(hook.clone()).await;
    for (name, level) in [
        ("neuron.loop.iteration", Level::DEBUG),
        ("neuron.llm.pre_call", Level::DEBUG),
        ("neuron.llm.post_call", Level::DEBUG),
        ("neuron.tool.pre_execution", Level::DEBUG),
        ("neuron.tool.post_execution", Level::DEBUG),
        ("neuron.context.compaction", Level::INFO),
        ("neuron.session.start", Level::INFO),
        ("neuron.session.end", Level::INFO),
    ] {
        let of_name = |told: &Told| told.name == name;
        let events: Vec<_> = records.events().into_iter().filter(of_name).collect();
        let spans: Vec<_> = records.spans().into_iter().filter(of_name).collect();
        assert!(!events.is_empty(), "{name}");
        assert_eq!(events.len(), spans.len(), "{name}");
        for (mut event, span) in events.into_iter().zip(spans) {
            assert_eq!((event.level, event.target.as_str()), (level, "neuron_runtime"), "{name}");
            assert_eq!(event.fields.remove("message").as_deref(), Some(name));
            assert_eq!(event.fields["run_id"], "run-1");
            assert_eq!(event.within[0], "neuron.run");
            // The span has the same fields as the event.
            assert_eq!(Told { has_ended: true, ..event }, span);
        }
    }
    // An ended run leaves no entry in the hook's clocks.
    assert!(format!("{hook:?}").contains("data: {}"), "{hook:?}");
}

#[tokio::test]
async fn events_of_a_run_have_order_and_fields() {
    let (records, _guard) = Records::start();
    let usage = TokenUsage {
        input_tokens: 10,
        output_tokens: 5,
        cache_read_tokens: Some(4),
        ..Default::default()
    };
    let replies = [
        act(json!({ "text": "hi" })),
        Reply::text("done").usage(usage).model("model-2").id("msg_2"),
    ];
    Chat::new(agent(replies, TracingHook::default())).run("go", &ctx()).await.unwrap();
    let events = records.events();
    let names: Vec<_> = events.iter().map(|event| event.name).collect();
    let turn = [
        "neuron.loop.iteration",
        "neuron.llm.pre_call",
        "neuron.llm.first_chunk",
        "neuron.llm.post_call",
    ];
    let tool = ["neuron.tool.pre_execution", "neuron.tool.post_execution"];
    let start = ["neuron.session.start", "neuron.run.start"];
    let end = ["neuron.run.end", "neuron.session.end"];
    assert_eq!(names, [&start[..], &turn, &tool, &turn, &end].concat());

    let told = |index: usize| {
        let mut fields = timeless(events[index].fields.clone());
        assert_eq!(fields.remove("message").as_deref(), Some(events[index].name));
        assert_eq!(fields.remove("run_id").as_deref(), Some("run-1"));
        fields
    };
    let scripted = ("provider", "scripted");
    assert_eq!(told(0), fields([("session_id", "chat-42")]));
    assert_eq!(told(1), fields([scripted, ("model", "scripted-model")]));
    assert_eq!(told(2), fields([("turn", "0")]));
    let counts =
        [("turn", "0"), scripted, ("model", "scripted-model"), ("messages", "1"), ("tools", "1")];
    assert_eq!(told(3), fields(counts));
    let call = [("turn", "0"), ("call_id", "c1"), ("tool", "act")];
    assert_eq!(told(6), fields(call));
    let result = [("turn", "0"), ("call_id", "c1"), ("tool", "act"), ("is_error", "false")];
    assert_eq!(told(7), fields(result));
    let answer = [
        ("turn", "1"),
        scripted,
        ("model", "model-2"),
        ("response_id", "msg_2"),
        ("stop_reason", "EndTurn"),
        ("tool_calls", "0"),
        ("input_tokens", "10"),
        ("output_tokens", "5"),
        ("cache_read_tokens", "4"),
    ];
    assert_eq!(told(11), fields(answer));
    assert_eq!(told(12)["turns"], "2");
    assert_eq!(told(12)["stop_reason"], "EndTurn");
    for index in [4, 5, 7, 11, 12] {
        assert!(events[index].fields.contains_key("duration_ms"), "{}", events[index].name);
    }
    let run = records.span("neuron.run");
    assert_eq!((run.fields["outcome"].as_str(), run.fields["turns"].as_str()), ("ok", "2"));
    assert_eq!(run.level, Level::INFO);
    assert!(records.spans().iter().all(|span| span.has_ended));
}

#[tokio::test]
async fn cost_is_recorded_if_the_budget_has_prices() {
    /// A call costs two dollars. The price of another model than `known` is unknown.
    struct Two(&'static str);

    impl PriceList for Two {
        fn cost(&self, v: &str, model: &str, _: &TokenUsage) -> Result<Money, UnknownPrice> {
            match model == self.0 {
                true => Ok(Money::from_dollars(2)),
                false => Err(UnknownPrice::new(v, model)),
            }
        }

        fn reserve(&self, v: &str, m: &str, _: usize, _: usize) -> Result<Money, UnknownPrice> {
            self.cost(v, m, &TokenUsage::default())
        }
    }

    for (known, cost) in [("scripted-model", "$2.00"), ("other", "$0.00 (incomplete)")] {
        let (records, _guard) = Records::start();
        let agent = agent([Reply::text("done")], TracingHook::default());
        let agent = agent.budget(Budget::priced(Two(known)));
        Chat::new(agent).run("go", &ctx()).await.unwrap();
        for name in ["neuron.llm.post_call", "neuron.run.end"] {
            assert_eq!(records.event(name).fields["cost"], cost, "{name}");
        }
        for name in ["neuron.llm.call", "neuron.run"] {
            assert_eq!(records.span(name).fields["cost"], cost, "{name}");
        }
    }
}

#[tokio::test]
async fn without_event_spans_records_no_event_spans() {
    let records = whole_run(TracingHook::new().without_event_spans()).await;
    let mut names: Vec<_> = records.spans().iter().map(|span| span.name).collect();
    names.sort_unstable();
    names.dedup();
    let around = ["neuron.context.compact", "neuron.llm.call", "neuron.run", "neuron.tool.call"];
    assert_eq!(names, around);
    assert!(!records.event("neuron.context.compaction").fields["new_tokens"].is_empty());
}

#[tokio::test]
async fn log_lines_of_parallel_tools_are_inside_the_span_of_their_call() {
    let (records, _guard) = Records::start();
    let mut tools = registry([Act::new("act", &Log::default())]);
    tools.add_middleware(tool_middleware_fn(|call, ctx, next| {
        Box::pin(async move {
            for _ in 0..3 {
                tokio::task::yield_now().await;
                tracing::info!(name: "own", call_id = call.id, "working");
            }
            next.run(call, ctx).await
        })
    }));
    let calls = ["a", "b", "c"].map(|id| (id, "act", json!({})));
    let provider = ScriptedProvider::new([Reply::tool_calls(calls), Reply::text("done")]);
    let builder = bare(provider).tools(tools).hook(TracingHook::new());
    let mut agent = Chat::new(builder.config(|config| config.parallel_tool_execution = true));
    agent.run("go", &ctx()).await.unwrap();
    let own: Vec<_> = records.events().into_iter().filter(|event| event.name == "own").collect();
    assert_eq!(own.len(), 9);
    for event in own {
        assert_eq!(event.within, ["neuron.run", "neuron.tool.call"]);
    }
    let calls: Vec<_> =
        records.spans().into_iter().filter(|span| span.name == "neuron.tool.call").collect();
    for (span, id) in calls.iter().zip(["a", "b", "c"]) {
        let expected = [
            ("turn", "0"),
            ("call_id", id),
            ("tool", "act"),
            ("outcome", "ok"),
            ("is_error", "false"),
        ];
        assert_eq!(span.fields, fields(expected));
        assert_eq!((span.level, span.has_ended), (Level::DEBUG, true));
    }
    let first_chunk = records.events().into_iter().find(|e| e.name == "neuron.llm.first_chunk");
    assert_eq!(first_chunk.unwrap().within, ["neuron.run", "neuron.llm.call"]);
}

const SECRETS: [&str; 5] = ["PROMPT-1", "ARGUMENT-2", "RESULT-3", "ANSWER-4", "FAILURE-5"];

/// Returns everything that `hook` records about runs with secret texts. One run succeeds, one run ends with a tool's
/// error, and then errors with secrets are passed to the hook. The result contains all events and spans as text.
async fn secret_runs(hook: TracingHook) -> String {
    let (records, _guard) = Records::start();
    let input = |fail: bool| match fail {
        true => json!({ "fail": "FAILURE-5", "note": "ARGUMENT-2" }),
        false => json!({ "text": "RESULT-3", "note": "ARGUMENT-2" }),
    };
    let replies = [
        act(input(false)).with_text("ANSWER-4"),
        Reply::text("ANSWER-4"),
        act(input(true)).with_text("ANSWER-4"),
    ];
    let mut agent = Chat::new(agent(replies, hook).system_prompt("PROMPT-1"));
    agent.run("PROMPT-1", &ctx()).await.unwrap();
    agent.run("PROMPT-1", &ctx()).await.unwrap_err();
    // A failed activity may contain a tool's text, and an invalid output may contain a response.
    for (error, is_end) in [
        (neuron_types::DurableError::ActivityFailed("FAILURE-5".into()).into(), true),
        (neuron_types::DurableError::Other("FAILURE-5".into()).into(), false),
        // The error of an unreadable response quotes the response.
        (ProviderError::Other("it begins with ANSWER-4".into()).into(), true),
        (ProviderError::StreamError("a line is odd: ANSWER-4".into()).into(), false),
        (ContextError::Provider(ProviderError::Other("ANSWER-4".into())).into(), true),
        (
            neuron_types::LoopError::InvalidOutput {
                raw: "ANSWER-4".into(),
                reason: "found ANSWER-4".into(),
                attempts: 1,
                stop_reason: neuron_types::StopReason::EndTurn,
            },
            true,
        ),
    ] {
        let event = match is_end {
            true => HookEvent::RunEnd { result: Err(&error) },
            false => HookEvent::LlmError { error: &error },
        };
        TracingHook::new().on_event(event).await.unwrap();
    }
    format!("{:?} {:?}", records.events(), records.spans())
}

#[tokio::test]
async fn texts_are_recorded_only_with_texts_enabled() {
    let told = secret_runs(TracingHook::new()).await;
    for secret in SECRETS {
        assert!(!told.contains(secret), "{secret}: {told}");
    }
    assert!(told.contains("Tool.ExecutionFailed") && told.contains("Durable.ActivityFailed"));

    let told = secret_runs(TracingHook::new().with_texts(10_000)).await;
    for secret in SECRETS {
        assert!(told.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn long_texts_are_cut_between_characters() {
    for (limit, expected) in [(0, "…"), (2, "äö…"), (3, "äöü"), (usize::MAX, "äöü")] {
        let (records, _guard) = Records::start();
        let hook = TracingHook::new().with_texts(limit);
        Chat::new(agent([Reply::text("äöü")], hook)).run("äöü", &ctx()).await.unwrap();
        assert_eq!(records.event("neuron.llm.post_call").fields["answer"], expected);
        assert_eq!(records.event("neuron.llm.pre_call").fields["prompt"], expected);
    }
}

#[tokio::test]
async fn failures_are_warnings_and_a_failed_run_is_an_error() {
    let (records, _guard) = Records::start();
    let error = ProviderError::ServiceUnavailable("529 overloaded".into());
    let mut failing = Chat::new(agent([Reply::error(error)], TracingHook::new()));
    failing.run("go", &ctx()).await.unwrap_err();
    for (name, level) in [("neuron.llm.error", Level::WARN), ("neuron.run.end", Level::ERROR)] {
        let event = records.event(name);
        assert_eq!(event.level, level);
        assert_eq!(event.fields["error_kind"], "Provider.ServiceUnavailable");
        assert_eq!(event.fields["error"], "provider error: service unavailable: 529 overloaded");
        assert!(event.fields.contains_key("duration_ms"));
    }
    for name in ["neuron.run", "neuron.llm.call"] {
        let span = records.span(name);
        assert_eq!(span.fields["outcome"], "error");
        assert_eq!(span.fields["error_kind"], "Provider.ServiceUnavailable");
    }

    let (records, _guard) = Records::start();
    let replies = [act(json!({ "fail": "disk full" }))];
    Chat::new(agent(replies, TracingHook::new())).run("go", &ctx()).await.unwrap_err();
    let event = records.event("neuron.tool.error");
    let expected = [
        ("message", "neuron.tool.error"),
        ("run_id", "run-1"),
        ("turn", "0"),
        ("call_id", "c1"),
        ("tool", "act"),
        ("error_kind", "Tool.ExecutionFailed"),
    ];
    assert_eq!((event.level, timeless(event.fields)), (Level::WARN, fields(expected)));
    assert_eq!(records.span("neuron.tool.call").fields["error_kind"], "Tool.ExecutionFailed");
    assert_eq!(records.event("neuron.run.end").level, Level::ERROR);
}

#[tokio::test]
async fn error_result_of_a_tool_is_not_a_tool_error() {
    let (records, _guard) = Records::start();
    let replies = [act(json!({ "fail": "disk full" })), Reply::text("sorry")];
    let builder = agent(replies, TracingHook::new());
    let returned = ToolErrorPolicy::ReturnToModel;
    let mut agent = Chat::new(builder.config(|config| config.tool_errors = returned));
    agent.run("go", &ctx()).await.unwrap();
    assert_eq!(records.event("neuron.tool.post_execution").fields["is_error"], "true");
    assert_eq!(records.span("neuron.tool.call").fields["is_error"], "true");
    assert!(records.events().iter().all(|event| event.level >= Level::INFO));
}

#[tokio::test]
async fn cancelled_run_is_a_warning_but_waiting_run_is_not() {
    struct Ask;

    impl PermissionPolicy for Ask {
        fn check(&self, _: &str, _: &Value) -> PermissionDecision {
            PermissionDecision::Ask("may it?".into())
        }
    }

    let (records, _guard) = Records::start();
    let ctx_to_cancel = ctx();
    let mut cancelled = Chat::new(agent([Reply::hang()], TracingHook::new()));
    let run = cancelled.run("go", &ctx_to_cancel);
    let cancel = async {
        tokio::task::yield_now().await;
        ctx_to_cancel.cancellation_token.cancel();
    };
    let (ended, ()) = tokio::join!(run, cancel);
    ended.unwrap_err();
    assert_eq!(records.event("neuron.llm.error").fields["error_kind"], "Cancelled");
    assert_eq!(records.event("neuron.run.end").level, Level::WARN);

    let (records, _guard) = Records::start();
    let waiting = agent([act(json!({}))], TracingHook::new()).permission_policy(Ask);
    let mut waiting = Chat::new(waiting.config(|config| config.pause_for_approval = true));
    waiting.run("go", &ctx()).await.unwrap_err();
    let end = records.event("neuron.run.end");
    assert_eq!((end.level, end.fields["error_kind"].as_str()), (Level::INFO, "ApprovalRequired"));
    assert_eq!(records.span("neuron.run").fields["outcome"], "waiting");
}

#[tokio::test(start_paused = true)]
async fn dropped_run_is_recorded_and_leaves_no_clock() {
    for replies in [vec![Reply::hang()], vec![act(json!({ "hang": true }))]] {
        let (records, _guard) = Records::start();
        let hook = TracingHook::new();
        let mut agent = Chat::new(agent(replies, hook.clone()));
        assert!(agent.run("go", &ctx()).into_future().now_or_never().is_none());
        let dropped = records.event("neuron.run.dropped");
        assert_eq!((dropped.level, dropped.fields["run_id"].as_str()), (Level::INFO, "run-1"));
        assert_eq!(dropped.within, ["neuron.run"]);
        assert_eq!(records.span("neuron.run").fields["outcome"], "dropped");
        assert!(records.spans().iter().all(|span| span.has_ended));
        let last = records.spans().into_iter().rfind(|span| span.name.ends_with(".call")).unwrap();
        assert_eq!(last.fields["outcome"], "dropped");
        assert!(format!("{hook:?}").contains("data: {}"), "{hook:?}");
    }
}

#[tokio::test]
async fn event_without_a_scope_has_its_own_fields() {
    let (records, _guard) = Records::start();
    let hook = TracingHook::new();
    for event in [
        HookEvent::LoopIteration { turn: 3 },
        HookEvent::RunStart { run_id: "run-7" },
        HookEvent::SessionStart { session_id: "" },
        HookEvent::ContextCompaction { old_tokens: 9, new_tokens: 4 },
    ] {
        assert_eq!(hook.on_event(event).await.unwrap(), HookAction::Continue);
    }
    let told = |name: &'static str| {
        let mut fields = records.event(name).fields;
        fields.remove("message");
        fields
    };
    assert_eq!(told("neuron.loop.iteration"), fields([("turn", "3")]));
    assert_eq!(told("neuron.run.start"), fields([("run_id", "run-7")]));
    assert_eq!(told("neuron.session.start"), fields([]));
    let counts = [("turn", "0"), ("old_tokens", "9"), ("new_tokens", "4")];
    assert_eq!(told("neuron.context.compaction"), fields(counts));

    let scope = HookScope::new("run-8", 2, "", "").with_replaying(true);
    hook.on_event_in(HookEvent::SessionEnd { session_id: "s" }, &scope).await.unwrap();
    let end = [("run_id", "run-8"), ("replaying", "true"), ("session_id", "s")];
    assert_eq!(told("neuron.session.end"), fields(end));
}

#[tokio::test]
async fn steps_streams_and_durable_runs_are_recorded() {
    let names =
        |records: &Records| -> Vec<_> { records.events().iter().map(|event| event.name).collect() };
    let replies = || [act(json!({})), Reply::text("done")];
    let (records, _guard) = Records::start();
    Chat::new(agent(replies(), TracingHook::new())).run("go", &ctx()).await.unwrap();
    let expected = names(&records);

    let (records, _guard) = Records::start();
    let mut stepped = Chat::new(agent(replies(), TracingHook::new()));
    let ctx = ctx();
    let mut steps = stepped.run("go", &ctx).steps();
    while steps.next().await.is_some() {}
    drop(steps);
    assert_eq!(names(&records), expected);
    assert_eq!(records.span("neuron.run").fields["outcome"], "ok");

    let (records, _guard) = Records::start();
    let tools = registry([Act::new("act", &Log::default())]);
    let provider = ScriptedProvider::new(replies());
    let context = LocalDurableContext::new(Arc::new(provider), Arc::new(tools));
    let mut durable = Chat::new(agent(replies(), TracingHook::new()));
    durable.run("go", &ctx).durable(context).await.unwrap();
    assert_eq!(names(&records), expected);
}

#[tokio::test]
async fn nested_run_records_its_agent_and_outer_call() {
    let (records, _guard) = Records::start();
    let mut scope = HookScope::new("run-2", 0, "", "");
    scope.agent = "researcher";
    scope.within = Some(OuterCall::new("run-1", "c1", 1));
    let hook = TracingHook::new();
    hook.on_event_in(HookEvent::RunStart { run_id: "run-2" }, &scope).await.unwrap();
    let request = CompletionRequest::default();
    let request = request.view();
    let operation = Operation::new(scope, OperationKind::Run { session_id: "", request: &request });
    // The run is dropped.
    drop(hook.scope(&operation));
    let start = records.event("neuron.run.start").fields;
    let run = records.spans().into_iter().find(|span| span.name == "neuron.run").unwrap().fields;
    for (name, value) in [
        ("agent", "researcher"),
        ("within_run", "run-1"),
        ("within_call", "c1"),
        ("run_id", "run-2"),
    ] {
        assert_eq!((start[name].as_str(), run[name].as_str()), (value, value));
    }
    assert_eq!(records.event("neuron.run.dropped").fields["agent"], "researcher");
}

/// A buffer for the lines that a `tracing_subscriber` formatter writes.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs an agent, and returns the log lines that pass the filter. `filter` has the syntax of `RUST_LOG`.
async fn log(filter: &str) -> Vec<String> {
    let output = Output::default();
    let writer = output.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    share_the_process();
    let guard = tracing::subscriber::set_default(subscriber);
    let mut agent = Chat::new(agent([act(json!({})), Reply::text("done")], TracingHook::new()));
    agent.run("go", &ctx()).await.unwrap();
    drop(guard);
    let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn log_has_one_line_per_event_that_passes_the_filter() {
    for filter in ["debug", "neuron=debug", "neuron_runtime=debug"] {
        let lines = log(filter).await;
        assert_eq!(lines.len(), 14, "{lines:#?}");
        assert!(lines[0].starts_with(" INFO neuron.run{"), "{}", lines[0]);
        let call = "neuron_runtime: neuron.llm.pre_call run_id=\"run-1\" turn=0";
        assert!(lines[3].starts_with("DEBUG") && lines[3].contains(call), "{}", lines[3]);
    }
    assert_eq!(log("info").await.len(), 3);
    assert_eq!(log("warn").await.len(), 0);
}

#[tokio::test]
async fn run_without_a_subscriber_succeeds() {
    share_the_process();
    let hook = TracingHook::new();
    let mut agent = Chat::new(agent([act(json!({})), Reply::text("done")], hook.clone()));
    let result = agent.run("go", &ctx()).await.unwrap();
    assert_eq!(result.response, "done");
    assert!(format!("{hook:?}").contains("data: {}"), "{hook:?}");
}

#[tokio::test(start_paused = true)]
async fn local_context_logs_retries_without_the_hook() {
    let (records, _guard) = Records::start();
    let error = ProviderError::ServiceUnavailable("529".into());
    let provider = ScriptedProvider::new([Reply::error(error), Reply::text("hi")]);
    let context = LocalDurableContext::new(Arc::new(provider), Arc::new(ToolRegistry::new()));
    let options = ActivityOptions {
        retry_policy: Some(neuron_types::RetryPolicy {
            initial_interval: Duration::from_secs(1),
            backoff_coefficient: 1.0,
            maximum_attempts: 2,
            maximum_interval: Duration::from_secs(1),
            non_retryable_errors: Vec::new(),
        }),
        ..Default::default()
    };
    let request = neuron_types::CompletionRequest::default();
    context.execute_llm_call(request, options).await.unwrap();
    let [event] = &records.events()[..] else { panic!("one line: {records:?}") };
    assert_eq!(event.fields["message"], "a call of the model failed; it is made again");
}
