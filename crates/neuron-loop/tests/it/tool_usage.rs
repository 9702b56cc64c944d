//! Tokens that tools use count once in the run, however the tools end.

use std::pin::pin;
use std::sync::{Arc, Mutex};

use neuron_loop::{Budget, LoopError, ToolErrorPolicy};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, ApprovalDecisions, CompletionRequest, CompletionResponse, DurableContext,
    DurableError, ErrorRecord, Message, PendingApproval, Provider, ResumedApproval, TokenUsage,
    ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, UsageLimits,
    WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::approval::ByArguments;
use crate::support::*;
use crate::waiting::{Waits, poll_times};

fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

/// A tool that uses 100 input tokens, returns `Poll::Pending` twice, uses 10 output tokens, and then ends as its
/// arguments say.
struct Spend(ToolEffect);

impl ToolDyn for Spend {
    fn name(&self) -> &str {
        "spend"
    }

    fn definition(&self) -> ToolDefinition {
        Act::definition_of("spend")
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            ctx.usage.add(&usage(100, 0));
            Waits::new(2).await;
            ctx.usage.add(&usage(0, 10));
            match input.as_str().unwrap_or_default() {
                "fail" => Err(ToolError::ExecutionFailed("no".into())),
                "retry" => Err(ToolError::ModelRetry("again".into())),
                "panic" => panic!("planned"),
                "hang" => std::future::pending().await,
                _ => Ok(ToolOutput::text("ok")),
            }
        })
    }

    fn effect(&self) -> ToolEffect {
        self.0
    }
}

fn spending() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Spend(ToolEffect::AtMostOnce)));
    tools
}

fn spends(inputs: &[&str]) -> Reply {
    let call = |(index, input): (usize, &&str)| (format!("c{index}"), "spend", json!(input));
    Reply::tool_calls(inputs.iter().enumerate().map(call)).usage(usage(10, 1))
}

#[tokio::test]
async fn tool_tokens_count_in_the_run_and_its_context() {
    for way in WAYS {
        for parallel in [false, true] {
            let setup = setup([
                spends(&["", "retry", "panic"]),
                spends(&[""]),
                Reply::text("done").usage(usage(10, 1)),
                Reply::text("more").usage(usage(10, 1)),
            ]);
            let mut agent =
                setup.builder.tools(spending()).parallel_tool_execution(parallel).build();
            let ctx = ToolContext::default();
            let result = run(way, &mut agent, &ctx).await.unwrap();
            assert_eq!(result.usage, usage(430, 43), "{way:?} {parallel}");
            assert_eq!(agent.usage(), &usage(430, 43));
            assert_eq!(agent.tool_usage(), &usage(400, 40));
            assert_eq!(agent.total_usage(), &usage(430, 43));
            assert_eq!(ctx.usage.total(), usage(430, 43));
            agent.run_text("more", &ctx).await.unwrap();
            assert_eq!((agent.usage(), agent.tool_usage()), (&usage(10, 1), &usage(0, 0)));
            assert_eq!(agent.total_usage(), &usage(440, 44));
        }
    }
}

#[tokio::test]
async fn interrupted_at_any_point_tool_tokens_count_once() {
    for parallel in [false, true] {
        for cancels in [false, true] {
            let mut seen = std::collections::BTreeSet::new();
            for polls in 0..12 {
                let setup = setup([spends(&["", "hang"])]);
                let mut agent =
                    setup.builder.tools(spending()).parallel_tool_execution(parallel).build();
                let ctx = ToolContext::default();
                {
                    let mut whole = pin!(agent.run_text("go", &ctx));
                    assert!(poll_times(whole.as_mut(), polls).is_none(), "one tool hangs");
                    if cancels {
                        ctx.cancellation_token.cancel();
                        assert!(poll_times(whole.as_mut(), 50).is_some());
                    }
                }
                let tools = agent.tool_usage().clone();
                let model = if agent.turns() == 0 { usage(0, 0) } else { usage(10, 1) };
                let mut sum = model;
                sum += &tools;
                assert_eq!(agent.usage(), &sum);
                assert_eq!(agent.total_usage(), &sum);
                assert_eq!(ctx.usage.total(), sum);
                seen.insert((tools.input_tokens, tools.output_tokens));
            }
            let last = (200, 20);
            assert!(seen.contains(&last) && seen.len() >= 3, "{parallel} {cancels}: {seen:?}");
        }
    }
}

/// The budget reserves the average size of the agent's earlier responses for the next response. The average must not
/// include responses of a sub-agent inside a tool. Otherwise the budget would reserve too much.
#[tokio::test]
async fn tool_tokens_do_not_raise_the_estimate_of_the_next_response() {
    let budget = Budget::new(UsageLimits::default().with_output_tokens_limit(1_000));
    let provider =
        ScriptedProvider::new([spends(&["", ""]), Reply::text("done").usage(usage(10, 1))]);
    /// A provider that logs the reserved tokens of the budget during each model call.
    struct Noting(ScriptedProvider, Budget, Mutex<Vec<usize>>);
    impl Provider for Noting {
        async fn complete(
            &self,
            request: CompletionRequest,
        ) -> Result<CompletionResponse, neuron_types::ProviderError> {
            let reserved = self.1.reserved_tokens();
            self.2.lock().unwrap().push(reserved);
            self.0.complete(request).await
        }

        async fn complete_stream(
            &self,
            request: CompletionRequest,
        ) -> Result<neuron_types::StreamHandle, neuron_types::ProviderError> {
            self.0.complete_stream(request).await
        }
    }
    struct Unlimited;
    impl neuron_types::ContextStrategy for Unlimited {
        fn should_compact(&self, _: &[Message], _: usize) -> bool {
            false
        }
        async fn compact(
            &self,
            messages: Vec<Message>,
        ) -> Result<Vec<Message>, neuron_types::ContextError> {
            Ok(messages)
        }
        fn token_estimate(&self, _: &[Message]) -> usize {
            0
        }
    }
    let noting = Arc::new(Noting(provider, budget.clone(), Mutex::default()));
    let mut agent =
        Chat::builder(noting.clone(), Unlimited).tools(spending()).budget(budget.clone()).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    // First call: nothing is known. Second call: the reported size of 11, and a response of 1.
    assert_eq!(*noting.2.lock().unwrap(), [1_000, 12]);
    assert_eq!(budget.usage(), usage(20, 2), "tools settle theirs themselves");
}

/// The journal of a durable context. It records the result and the token usage of each tool call for a replay.
#[derive(Default)]
struct Journal {
    steps: Mutex<Vec<(Result<ToolOutput, ErrorRecord>, TokenUsage)>>,
    at: Mutex<usize>,
    runs: Mutex<usize>,
}

struct Journaled<'j>(&'j Journal, ScriptedProvider, ToolRegistry);

impl DurableContext for Journaled<'_> {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        _: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.1.complete(request).await.map_err(DurableError::Provider)
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        _: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        let at = std::mem::replace(&mut *self.0.at.lock().unwrap(), 0);
        *self.0.at.lock().unwrap() = at + 1;
        let known = self.0.steps.lock().unwrap().get(at).cloned();
        let (ran, took) = match known {
            Some((ran, took)) => {
                ctx.usage.add(&took);
                (ran, took)
            }
            None => {
                *self.0.runs.lock().unwrap() += 1;
                let ran = self.2.execute(tool_name, input, ctx).await;
                let ran = ran.map_err(|error| ErrorRecord::from(&error));
                let took = ctx.usage.total();
                self.0.steps.lock().unwrap().push((ran.clone(), took.clone()));
                (ran, took)
            }
        };
        assert_eq!(took, usage(100, 10));
        ran.map_err(|error| DurableError::Tool(error.into_tool_error()))
    }

    no_signals_or_timers!();
}

#[tokio::test]
async fn replay_counts_the_same_tokens_as_the_first_execution() {
    for way in WAYS {
        for parallel in [false, true] {
            let journal = Journal::default();
            let mut ends = Vec::new();
            for _ in 0..2 {
                *journal.at.lock().unwrap() = 0;
                let replies = [spends(&["", "fail"]), Reply::text("done").usage(usage(10, 1))];
                let context = Journaled(&journal, ScriptedProvider::new(replies), spending());
                let mut agent = Chat::builder(ScriptedProvider::default(), window())
                    .tools(spending())
                    .tool_errors(ToolErrorPolicy::ReturnToModel)
                    .parallel_tool_execution(parallel)
                    .durability(context)
                    .build();
                let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
                assert_eq!(result.usage, usage(220, 22), "{way:?} {parallel}");
                ends.push(result);
            }
            assert_eq!(ends[0], ends[1]);
            assert_eq!(*journal.runs.lock().unwrap(), 2, "the second execution ran none");
        }
    }
}

#[tokio::test]
async fn tokens_of_a_discarded_early_call_count() {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Spend(ToolEffect::Pure)));
    let mut seen = std::collections::BTreeSet::new();
    for events in 0..40 {
        let cut = neuron_types::ProviderError::StreamError("cut".into());
        let broken = spends(&["", "", ""]).chunk_chars(1).fail_after(events, cut);
        let setup = setup([broken, Reply::text("done").usage(usage(10, 1))]);
        let budget = Budget::new(UsageLimits::default());
        let builder = setup.builder.tools(tools.clone()).early_tools(true).budget(budget.clone());
        let mut agent = builder.build();
        let ctx = ToolContext::default();
        let is_broken = run(Way::Stream, &mut agent, &ctx).await.is_err();
        let mut sum = agent.tool_usage().clone();
        // Usage that a stream reports before it breaks counts.
        let told = agent.usage().output_tokens > sum.output_tokens;
        sum += &if is_broken { usage(10, 1) } else { usage(20, 2) };
        let sum = if told { sum } else { agent.tool_usage().clone() };
        assert_eq!((agent.usage(), agent.total_usage()), (&sum, &sum), "{events}");
        assert_eq!(ctx.usage.total(), sum);
        if is_broken {
            seen.insert((sum.input_tokens, sum.output_tokens));
        } else {
            assert!(told);
            assert_eq!(sum, usage(320, 32));
            assert_eq!(budget.usage(), usage(20, 2), "tools settle theirs themselves");
        }
    }
    assert!(seen.contains(&(0, 0)) && seen.contains(&(100, 0)) && seen.len() > 3, "{seen:?}");
}

/// A tool that runs an agent. This agent pauses for an approval after its first response.
struct Asking(ScriptedProvider);

impl ToolDyn for Asking {
    fn name(&self) -> &str {
        "ask"
    }

    fn definition(&self) -> ToolDefinition {
        Act::definition_of("ask")
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let mut inner = Chat::builder(self.0.clone(), window())
                .tools(registry(&Log::default()))
                .permission_policy(ByArguments)
                .pause_for_approval(true)
                .build();
            let result = match ctx.extensions.get::<ResumedApproval>() {
                Some(resumed) => {
                    inner.restore(resumed.pending.clone()).unwrap();
                    inner.resume(resumed.decisions.clone(), ctx).await?
                }
                None => inner.run_text("sub-task", ctx).await?,
            };
            Ok(ToolOutput::text(result.response))
        })
    }
}

#[tokio::test]
async fn nested_agent_that_waits_counts_its_tokens_once() {
    let inner = ScriptedProvider::new([
        calls([json!({"ask": "really?"})]).usage(usage(100, 10)),
        Reply::text("inner").usage(usage(1_000, 100)),
    ]);
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Asking(inner)));
    let script = [
        Reply::tool_calls([("a", "ask", json!({}))]).usage(usage(10, 1)),
        Reply::text("done").usage(usage(10, 1)),
    ];
    let script = ScriptedProvider::new(script);
    let build = || {
        let builder = Chat::builder(script.clone(), window()).tools(tools.clone());
        builder.pause_for_approval(true).build()
    };
    let (mut agent, ctx) = (build(), ToolContext::default());
    let Err(LoopError::ApprovalRequired(pending)) = agent.run_text("go", &ctx).await else {
        panic!("it waits");
    };
    assert_eq!((&pending.usage, &pending.tool_usage), (&usage(110, 11), &usage(100, 10)));
    assert_eq!(agent.usage(), &pending.usage);

    let stored = serde_json::to_string(&pending).unwrap();
    let pending: PendingApproval = serde_json::from_str(&stored).unwrap();
    let (mut agent, ctx) = (build(), ToolContext::default());
    agent.restore(pending.clone()).unwrap();
    assert_eq!(agent.tool_usage(), &usage(100, 10));
    let result = agent.resume(ApprovalDecisions::approve_all(&pending), &ctx).await.unwrap();
    assert_eq!(result.usage, usage(1_120, 112));
    assert_eq!(agent.tool_usage(), &usage(1_100, 110));
    assert_eq!(agent.total_usage(), &usage(1_010, 101), "from where it was restored");
    assert_eq!(ctx.usage.total(), usage(1_010, 101));
}
