//! A durable context that executes model calls and tools.

use std::sync::Mutex;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use neuron_context::SummarizationStrategy;
use neuron_loop::LoopError;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, Durability, DurableContext,
    DurableError, DurableProvider, KnownEffect, Message, Provider, RequestRef, StreamEvent,
    TokenUsage, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolInvocation,
    ToolOutput, WasmBoxedFuture,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::*;

/// The engine's state, which the durable context borrows.
#[derive(Default)]
struct Engine {
    steps: Mutex<Vec<String>>,
    continue_at: Option<usize>,
    state: Mutex<Option<Value>>,
    /// Set if every tool call hangs.
    hangs: bool,
    /// The cancellation tokens that the tools received.
    tokens: Mutex<Vec<tokio_util::sync::CancellationToken>>,
    /// The effects that the called tools declare.
    effects: Mutex<Vec<ToolEffect>>,
}

struct Borrowing<'e> {
    engine: &'e Engine,
    provider: ScriptedProvider,
}

impl Borrowing<'_> {
    fn note(&self, step: impl Into<String>) {
        self.engine.steps.lock().unwrap().push(step.into());
    }
}

fn effect() -> KnownEffect {
    KnownEffect { tool: "pay".into(), key: "17".into(), output: None }
}

impl DurableContext for Borrowing<'_> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.note(format!("llm {}", options.start_to_close_timeout.as_secs()));
        self.provider.complete(request).await.map_err(DurableError::Provider)
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        _options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        self.note(format!("tool {tool_name} {} {}", ctx.call_id, ctx.idempotency_key));
        self.engine.tokens.lock().unwrap().push(ctx.cancellation_token.clone());
        if self.engine.hangs {
            std::future::pending::<()>().await;
        }
        if let Some(hint) = input["retry"].as_str() {
            return Err(DurableError::Tool(ToolError::ModelRetry(hint.into())));
        }
        assert!(input["panic"].is_null(), "the tool panics");
        if !input["fail"].is_null() {
            return Err(DurableError::Tool(ToolError::ExecutionFailed("boom".into())));
        }
        Ok(ToolOutput::text("from the engine"))
    }

    async fn wait_for_signal<T: DeserializeOwned>(
        &self,
        _: &str,
        _: Duration,
    ) -> Result<Option<T>, DurableError> {
        Ok(serde_json::from_str("5").ok())
    }

    fn should_continue_as_new(&self) -> bool {
        Some(self.engine.steps.lock().unwrap().len()) == self.engine.continue_at
    }

    fn known_effects(&self) -> Vec<KnownEffect> {
        vec![effect()]
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        *self.engine.state.lock().unwrap() = Some(state);
        Err(DurableError::ContinueAsNew("next".into()))
    }

    async fn sleep(&self, _: Duration) {}

    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        self.note(format!("batch {}", batch.len()));
        let mut results = Vec::new();
        for ToolInvocation { call, ctx, effect, scope, .. } in batch {
            self.engine.effects.lock().unwrap().push(effect);
            let work = self.execute_tool(&call.name, call.input, &ctx, options.clone());
            results.push(scope.run(work).await);
        }
        results
    }

    fn run_id(&self) -> Option<&str> {
        Some("wf-1")
    }
}

fn replies() -> [Reply; 2] {
    [calls([json!({"retry": "again"}), json!({})]), Reply::text("done")]
}

#[tokio::test]
async fn calls_go_through_the_context_in_order() {
    for way in WAYS {
        for parallel in [false, true] {
            let engine = Engine::default();
            let Setup { provider, log, builder } = setup([Reply::text("not asked")]);
            let context = Borrowing { engine: &engine, provider: ScriptedProvider::new(replies()) };
            let hook = Recorder::default();
            let mut agent = builder
                .parallel_tool_execution(parallel)
                .hook(hook.clone())
                .durability(context)
                .build();
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(result.response, "done");
            assert_eq!(last_results(&result.messages), ["c0: !again", "c1: from the engine"]);
            assert_eq!((provider.calls(), log.lines().len()), (0, 0));
            let (first, second) = ("tool act c0 wf-1/0/0/0/c0", "tool act c1 wf-1/0/0/1/c1");
            let expected: &[&str] = if parallel {
                &["llm 600", "batch 2", first, second, "llm 600"]
            } else {
                &["llm 600", "batch 1", first, "batch 1", second, "llm 600"]
            };
            assert_eq!(*engine.steps.lock().unwrap(), expected);
            check_pairs(&hook.log.lines());
        }
    }
}

/// A tool that declares an effect. Its annotations always claim that it is read-only and idempotent, and the loop must
/// not trust them.
struct Declares(&'static str, ToolEffect);

impl ToolDyn for Declares {
    fn name(&self) -> &str {
        self.0
    }

    fn definition(&self) -> ToolDefinition {
        let annotations = neuron_types::ToolAnnotations {
            read_only_hint: Some(true),
            idempotent_hint: Some(true),
            ..Default::default()
        };
        ToolDefinition { annotations: Some(annotations), ..Act::definition_of(self.0) }
    }

    fn call_dyn<'a>(
        &'a self,
        _input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        unreachable!("the engine runs the tools")
    }

    fn effect(&self) -> ToolEffect {
        self.1
    }
}

#[tokio::test]
async fn context_receives_declared_effects_and_not_annotations() {
    let engine = Engine::default();
    let names = ["reads", "sets", "sends"];
    let script =
        [Reply::tool_calls(names.map(|name| (name, name, json!({})))), Reply::text("done")];
    let context = Borrowing { engine: &engine, provider: ScriptedProvider::new(script) };
    let effects = [ToolEffect::Pure, ToolEffect::Idempotent, ToolEffect::AtMostOnce];
    let mut inner = neuron_tool::ToolRegistry::new();
    for (name, effect) in names.into_iter().zip(effects) {
        inner.register_dyn(std::sync::Arc::new(Declares(name, effect)));
    }
    let builder = setup([Reply::text("no")]).builder.parallel_tool_execution(true);
    let mut agent = builder.durability(context).build();
    agent.tools_mut().merge(inner).unwrap();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(*engine.effects.lock().unwrap(), effects);
}

#[tokio::test]
async fn engine_runs_only_approved_calls_up_to_the_concurrency_limit() {
    struct Ask;

    impl neuron_types::PermissionPolicy for Ask {
        fn check(&self, _: &str, input: &Value) -> neuron_types::PermissionDecision {
            match input["ask"].is_null() {
                true => neuron_types::PermissionDecision::Allow,
                false => neuron_types::PermissionDecision::Ask("sure?".into()),
            }
        }
    }

    let engine = Engine::default();
    let script = [calls([json!({}), json!({"ask": 1}), json!({}), json!({})]), Reply::text("done")];
    let context = Borrowing { engine: &engine, provider: ScriptedProvider::new(script) };
    let builder = setup([Reply::text("no")]).builder.parallel_tool_execution(true);
    let builder = builder.permission_policy(Ask).pause_for_approval(true).max_parallel_tools(2);
    let mut agent = builder.durability(context).build();
    let ctx = ToolContext::default();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error:?}") };
    assert_eq!(pending.effects, [effect()]);
    let steps = || -> Vec<String> {
        let steps = engine.steps.lock().unwrap();
        steps.iter().map(|step| step.split(" wf-1").next().unwrap().to_owned()).collect()
    };
    let before = ["llm 600", "batch 1", "tool act c0", "batch 2", "tool act c2", "tool act c3"];
    assert_eq!(steps(), before);
    let decisions = neuron_types::ApprovalDecisions::approve_all(&pending);
    agent.resume(decisions, &ctx).await.unwrap();
    assert_eq!(steps()[before.len()..], ["batch 1", "tool act c1", "llm 600"]);
    let expected = ["c0", "c1", "c2", "c3"].map(|id| format!("{id}: from the engine"));
    assert_eq!(last_results(agent.messages()), expected);
}

#[tokio::test]
async fn continue_as_new_carries_the_whole_run() {
    let engine = Engine { continue_at: Some(6), ..Default::default() };
    let provider = ScriptedProvider::new([calls([json!({})]), calls([json!({})])]);
    let context = Borrowing { engine: &engine, provider };
    let mut agent = setup([Reply::text("no")]).builder.build();
    agent.set_durability(context);
    let error = agent.run_text("go", &ToolContext::default()).await.unwrap_err();
    assert!(matches!(error, LoopError::Durable(DurableError::ContinueAsNew(_))), "{error:?}");
    let state = engine.state.lock().unwrap().take();
    let Some(state) = state else { panic!("no state: {:?}", engine.steps.lock().unwrap()) };
    assert_eq!(state["version"], 2);
    let messages: Vec<Message> = serde_json::from_value(state["messages"].clone()).unwrap();
    assert_eq!(messages, agent.messages());
    assert_eq!(state["turns"], agent.turns());
    assert_eq!(state["effects"], serde_json::to_value([effect()]).unwrap());
    assert_eq!(state["usage"], serde_json::to_value(agent.usage()).unwrap());
}

/// Regression test. A durable engine may send two deltas concurrently. Before the fix, one of the senders was never
/// woken, and the run hung.
#[tokio::test]
async fn concurrent_deltas_arrive_and_other_events_do_not() {
    struct Concurrent<'e>(Borrowing<'e>);
    impl DurableContext for Concurrent<'_> {
        async fn execute_llm_call(
            &self,
            request: CompletionRequest,
            options: ActivityOptions,
        ) -> Result<CompletionResponse, DurableError> {
            self.0.execute_llm_call(request, options).await
        }
        async fn execute_tool(
            &self,
            tool_name: &str,
            input: Value,
            ctx: &ToolContext,
            options: ActivityOptions,
        ) -> Result<ToolOutput, DurableError> {
            self.0.execute_tool(tool_name, input, ctx, options).await
        }
        no_signals_or_timers!();
        async fn execute_llm_stream(
            &self,
            request: RequestRef<'_>,
            options: ActivityOptions,
            sink: &dyn neuron_types::DeltaSink,
        ) -> Result<CompletionResponse, DurableError> {
            let texts = ["a", "b", "c"].map(|text| StreamEvent::TextDelta(text.into()));
            let whole = neuron_types::AgentResult {
                response: "raw".into(),
                messages: vec![],
                usage: Default::default(),
                turns: 0,
                stop_reason: neuron_types::StopReason::EndTurn,
                limit_reached: None,
            };
            let (id, name, output) = ("x".into(), "x".into(), ToolOutput::text("raw"));
            let no_deltas = [
                StreamEvent::MessageComplete(Message::assistant("raw")),
                StreamEvent::Usage(Default::default()),
                StreamEvent::ToolResult { id, name, output },
                StreamEvent::RunComplete(Box::new(whole)),
            ];
            let events = texts.into_iter().chain(no_deltas);
            // Polls a sender only after it was woken.
            let mut sending: FuturesUnordered<_> = events.map(|event| sink.send(event)).collect();
            while sending.next().await.is_some() {}
            self.execute_llm_call(request.to_request(), options).await
        }
    }
    let engine = Engine::default();
    let provider = ScriptedProvider::new([Reply::text("whole")]);
    let context = Concurrent(Borrowing { engine: &engine, provider });
    let mut agent = setup([Reply::text("no")]).builder.durability(context).build();
    let ctx = ToolContext::default();
    let mut events = agent.run_stream(Message::user("go"), &ctx).await;
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    let all = async {
        while let Some(event) = events.recv().await {
            match event {
                StreamEvent::TextDelta(text) => texts.push(text),
                StreamEvent::MessageComplete(message) => others.push(message.text()),
                StreamEvent::Usage(_) => others.push("usage".into()),
                StreamEvent::RunComplete(result) => others.push(result.response),
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), all).await.expect("it does not hang");
    texts.sort();
    assert_eq!(texts.concat(), "abc");
    assert_eq!(others, ["whole", "usage", "whole"]);
}

/// Regression test. Dropping a durable run must cancel the cancellation tokens of its tools. Before the fix, they were
/// not cancelled.
#[tokio::test(start_paused = true)]
async fn dropped_durable_run_cancels_the_tokens_of_its_tools() {
    let engine = Engine { hangs: true, ..Default::default() };
    let context = Borrowing { engine: &engine, provider: ScriptedProvider::new(replies()) };
    let mut agent = setup([Reply::text("no")]).builder.durability(context).build();
    let ctx = ToolContext::default();
    tokio::time::timeout(Duration::from_secs(1), agent.run_text("go", &ctx)).await.unwrap_err();
    let tokens = engine.tokens.lock().unwrap();
    assert!(tokens.len() == 1 && tokens[0].is_cancelled());
    assert!(!ctx.cancellation_token.is_cancelled());
}

/// Regression test. Two runs under one engine must use different idempotency keys. Before the fix, the keys were equal,
/// because the engine gives both runs the same run id.
#[tokio::test]
async fn runs_under_one_engine_have_different_keys() {
    let engine = Engine::default();
    let script = [calls([json!({})]), Reply::text("one"), calls([json!({})]), Reply::text("two")];
    let context = Borrowing { engine: &engine, provider: ScriptedProvider::new(script) };
    let mut agent = setup([Reply::text("no")]).builder.durability(context).build();
    let ctx = ToolContext::default();
    agent.run_text("a", &ctx).await.unwrap();
    agent.run_text("b", &ctx).await.unwrap();
    let steps = engine.steps.lock().unwrap();
    let tools: Vec<_> = steps.iter().filter(|step| step.starts_with("tool")).collect();
    assert_eq!(tools, ["tool act c0 wf-1/0/0/0/c0", "tool act c0 wf-1/1/0/0/c0"]);
}

/// A context strategy that writes a summary makes its model call through the durable context, as the loop does.
#[tokio::test]
async fn summary_goes_through_the_context() {
    let engine: &'static Engine = Box::leak(Box::default());
    let provider = ScriptedProvider::new([
        calls([json!({ "text": "long ".repeat(100) })]),
        calls([json!({})]).usage(TokenUsage { input_tokens: 1_000, ..Default::default() }),
        Reply::text("what was done"),
        Reply::text("done"),
    ]);
    let context = || Durability::new(Borrowing { engine, provider: provider.clone() });
    let strategy = SummarizationStrategy::new(DurableProvider::new(context()), 2, 900);
    let mut agent = Chat::builder(ScriptedProvider::new([""; 0]), strategy)
        .tools(registry(&Log::default()))
        .durability(context())
        .build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(result.response, "done");
    let steps = engine.steps.lock().unwrap().clone();
    let calls = steps.iter().filter(|step| step.starts_with("llm")).count();
    assert_eq!(calls, 4, "{steps:#?}");
    let summary = "[Summary of earlier conversation]\nwhat was done";
    assert!(agent.messages().contains(&Message::user(summary)), "{:#?}", agent.messages());
    check_valid(agent.messages());
}

/// A panic of a tool must leave a valid history. The durable context of this test calls tools directly, so that no
/// registry catches the panic.
#[tokio::test]
async fn panic_in_the_context_leaves_a_valid_history() {
    for parallel in [false, true] {
        let engine = Engine::default();
        let reply = calls([json!({}), json!({ "panic": true }), json!({})]);
        let provider = ScriptedProvider::new([reply, Reply::text("done")]);
        let durable = Borrowing { engine: &engine, provider: provider.clone() };
        let mut agent = Chat::builder(provider, window())
            .tools(registry(&Log::default()))
            .parallel_tool_execution(parallel)
            .durability(durable)
            .build();
        let ctx = ToolContext::default();
        let run = std::panic::AssertUnwindSafe(agent.run_text("go", &ctx));
        assert!(futures_util::FutureExt::catch_unwind(run).await.is_err());
        check_valid(agent.messages());
        assert_eq!(last_results(agent.messages()).len(), 3, "parallel: {parallel}");
        assert_eq!(agent.run_text("go on", &ctx).await.unwrap().response, "done");
    }
}
