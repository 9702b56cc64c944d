//! Tests of effect keys that calls of several agents of one run share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_durable::{LocalDurableContext, UnknownOutcome};
use neuron_durable_sqlite::{DurableOptions, SqliteRuns};
use neuron_loop::{Agent, Conversation};
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::faults::{BrokenPromise, FaultTest, Report};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{Next, ToolRegistry, tool_middleware_fn};
use neuron_types::{
    BoxError, CompletionRequest, CompletionResponse, ContentBlock, Message, Provider,
    ProviderError, RetryPolicy, Role, StopReason, StreamHandle, TokenUsage, ToolContext,
    ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::support::place;

/// A tool that pays an invoice. Its effect key is the invoice.
struct Pay {
    effect: ToolEffect,
    calls: Arc<AtomicUsize>,
    /// What the call with this number does, from the first call on. After the last one a call succeeds.
    fails: Vec<Call>,
}

#[derive(Clone, Copy)]
enum Call {
    Fails,
    Panics,
    Hangs,
}

impl ToolDyn for Pay {
    fn name(&self) -> &str {
        "pay"
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "pay".into(),
            title: None,
            description: "Pays an invoice.".into(),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }

    fn effect_key(&self, input: &Value) -> Option<String> {
        Some(input["invoice"].to_string())
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            match self.fails.get(number) {
                Some(Call::Fails) => Err(ToolError::ExecutionFailed("no money".into())),
                Some(Call::Panics) => panic!("a test"),
                Some(Call::Hangs) => std::future::pending().await,
                None => Ok(ToolOutput::text(format!("payment {number}"))),
            }
        })
    }
}

/// A clerk, which pays the invoice 17 and repeats the result. All clerks but the first begin a little later.
struct Clerk;

impl Provider for Clerk {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        if request.messages[0].text().contains("later") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let results = request.messages.last().into_iter().flat_map(|last| &last.content);
        let mut result = results.filter_map(|block| match block {
            ContentBlock::ToolResult { content, .. } => Some(content[0].to_string()),
            _ => None,
        });
        let (block, stop_reason) = match result.next() {
            Some(text) => (ContentBlock::Text(text), StopReason::EndTurn),
            None => {
                let (id, name) = ("c".into(), "pay".into());
                let input = json!({ "invoice": 17 });
                (ContentBlock::ToolUse { id, name, input }, StopReason::ToolUse)
            }
        };
        let message = Message { role: Role::Assistant, content: vec![block] };
        let (id, model, usage) = ("r".into(), "m".into(), TokenUsage::default());
        Ok(CompletionResponse { id, model, message, usage, stop_reason })
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::ServiceUnavailable("no streams".into()))
    }
}

/// A run whose model calls the agent `clerk`.
struct Office {
    model: Arc<ScriptedProvider>,
    pay: Arc<Pay>,
    /// Time after which a middleware drops the first call of a clerk.
    first_ends_after: Option<Duration>,
    continue_after: Option<usize>,
}

impl Office {
    /// Creates a run in which each response of the model calls this number of clerks.
    fn new(clerks: &[usize], effect: ToolEffect, fails: &[Call]) -> Self {
        let mut number = 0;
        let mut replies = Vec::new();
        for calls in clerks {
            let calls = (0..*calls).map(|_| {
                number += 1;
                let prompt = if number == 1 { "Pay." } else { "Pay a little later." };
                (format!("out{number}"), "clerk".to_owned(), json!({ "prompt": prompt }))
            });
            replies.push(Reply::tool_calls(calls.collect::<Vec<_>>()));
        }
        replies.push(Reply::text("done"));
        let pay = Pay { effect, calls: Arc::default(), fails: fails.to_vec() };
        Self {
            model: Arc::new(ScriptedProvider::new(replies)),
            pay: Arc::new(pay),
            first_ends_after: None,
            continue_after: None,
        }
    }

    /// Returns the tool `pay` and the agent `clerk`.
    fn tools(&self, pay: Arc<dyn ToolDyn>) -> ToolRegistry {
        let mut tools = ToolRegistry::new();
        tools.register_dyn(pay);
        let mut agents = SubAgentManager::new();
        let clerk = SubAgentConfig {
            description: "Pays".into(),
            tools: vec!["pay".into()],
            ..SubAgentConfig::default()
        };
        agents.register("clerk", clerk);
        agents.add_to(&mut tools, Arc::new(Clerk)).unwrap();
        tools
    }

    /// Drives the run, and returns the results of its clerks.
    async fn drive(&self, runs: &SqliteRuns) -> Vec<String> {
        let mut tools = self.tools(self.pay.clone());
        if let Some(limit) = self.first_ends_after {
            tools.add_middleware(tool_middleware_fn(move |call, ctx, next: Next<'_>| {
                let (call, id) = (call.clone(), ctx.call_id.clone());
                Box::pin(async move {
                    match id == "out1" {
                        true => tokio::time::timeout(limit, next.run(&call, ctx))
                            .await
                            .unwrap_or_else(|_| Err(ToolError::ExecutionFailed("late".into()))),
                        false => next.run(&call, ctx).await,
                    }
                })
            }));
        }
        let agent = Agent::builder(self.model.clone())
            .tools(tools.clone())
            .config(|config| config.parallel_tool_execution = true);
        let mut run = runs.run("r");
        if let Some(steps) = self.continue_after {
            run = run.options(DurableOptions::new().continue_after(steps));
        }
        let context = run.open(self.model.clone(), Arc::new(tools)).await.unwrap();
        let ended = context.drive("Pay the invoice 17.", &agent.build()).await.unwrap();
        assert_eq!(ended.response, "done");
        let blocks = ended.messages.iter().flat_map(|message| &message.content);
        let results = blocks.filter_map(|block| match block {
            ContentBlock::ToolResult { content, .. } => Some(content[0].to_string()),
            _ => None,
        });
        results.collect()
    }

    /// Drives the run until a payment hangs, and drops it.
    async fn interrupt(&self, runs: &SqliteRuns) {
        let waits = async {
            while self.paid() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // Long enough for the other clerk to wait for this payment.
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        tokio::select! {
            ended = self.drive(runs) => panic!("{ended:?}"),
            () = waits => {}
        }
    }

    fn paid(&self) -> usize {
        self.pay.calls.load(Ordering::SeqCst)
    }
}

async fn memory() -> SqliteRuns {
    SqliteRuns::open(":memory:").await.unwrap()
}

const ONCE: ToolEffect = ToolEffect::AtMostOnce;

/// Regression test. Before the fix, each call of a sub-agent paid the invoice again.
#[tokio::test]
async fn calls_of_a_sub_agent_pay_an_invoice_once() {
    for clerks in [&[1, 1][..], &[2], &[3, 1, 2]] {
        for continue_after in [None, Some(2)] {
            let office = Office { continue_after, ..Office::new(clerks, ONCE, &[]) };
            let results = office.drive(&memory().await).await;
            assert_eq!(results, vec!["payment 0"; clerks.iter().sum()]);
            assert_eq!(office.paid(), 1);
        }
    }
}

#[tokio::test]
async fn failed_payment_lets_the_next_agent_pay() {
    for clerks in [&[1, 1, 1][..], &[3]] {
        let office = Office::new(clerks, ONCE, &[Call::Fails]);
        let mut results = office.drive(&memory().await).await;
        results.sort();
        assert_eq!(results[..2], ["payment 1", "payment 1"], "{results:?}");
        assert!(results[2].contains("no money"), "{results:?}");
        assert_eq!(office.paid(), 2);
    }
}

#[tokio::test]
async fn unknown_payment_is_unknown_to_the_next_agent() {
    for clerks in [&[1, 1][..], &[2]] {
        let office = Office::new(clerks, ONCE, &[Call::Panics]);
        let results = office.drive(&memory().await).await;
        assert!(results.iter().any(|result| result.contains("unknown")), "{results:?}");
        assert_eq!(office.paid(), 1, "{results:?}");
        let office = Office::new(clerks, ToolEffect::Idempotent, &[Call::Panics]);
        let results = office.drive(&memory().await).await;
        assert!(results.contains(&"payment 1".to_owned()), "{results:?}");
        assert_eq!(office.paid(), 2);
    }
}

#[tokio::test]
async fn payment_of_an_agent_that_was_dropped_is_unknown_to_the_next() {
    for clerks in [&[1, 1][..], &[2]] {
        let first_ends_after = Some(Duration::from_millis(200));
        let office = Office { first_ends_after, ..Office::new(clerks, ONCE, &[Call::Hangs]) };
        let results = office.drive(&memory().await).await;
        assert!(results[0].contains("late") && results[1].contains("unknown"), "{results:?}");
        assert_eq!(office.paid(), 1);
    }
}

#[tokio::test]
async fn interrupted_payment_is_unknown_to_all_agents() {
    for clerks in [&[1, 1][..], &[2]] {
        let (_folder, path) = place();
        let office = Office::new(clerks, ONCE, &[Call::Hangs]);
        let runs = SqliteRuns::open(&path).await.unwrap();
        office.interrupt(&runs).await;
        let results = office.drive(&SqliteRuns::open(&path).await.unwrap()).await;
        assert!(results.iter().all(|result| result.contains("unknown")), "{results:?}");
        assert_eq!(office.paid(), 1);
    }
}

/// A run that must end at an unknown outcome ends, and the other agent does not wait for the payment.
#[tokio::test]
async fn interrupted_payment_ends_a_run_that_must_not_go_on() {
    let (_folder, path) = place();
    let office = Office::new(&[2], ONCE, &[Call::Hangs]);
    let runs = SqliteRuns::open(&path).await.unwrap();
    office.interrupt(&runs).await;
    let tools = office.tools(office.pay.clone());
    let agent = Agent::builder(office.model.clone())
        .tools(tools.clone())
        .config(|config| config.parallel_tool_execution = true)
        .build();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let run = runs.run("r").options(DurableOptions::new().unknown_outcome(UnknownOutcome::Fail));
    let context = run.open(office.model.clone(), Arc::new(tools)).await.unwrap();
    let run = context.drive("Pay the invoice 17.", &agent);
    let ended = tokio::time::timeout(Duration::from_secs(60), run).await.expect("it ends");
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("the outcome of a call of `pay` is unknown"), "{error}");
    assert_eq!(office.paid(), 1);
}

/// Runs two clerks after each other and two at the same time, with faults. The engine is SQLite or one that compares no
/// effect keys.
async fn with_faults(is_sqlite: bool) -> Report {
    let runs = memory().await;
    FaultTest::new()
        .runs(60)
        .run(async |trial| {
            let office = Office::new(&[1, 1, 2], ONCE, &[]);
            let process = async || -> Result<String, BoxError> {
                let provider = Arc::new(trial.provider(office.model.clone()));
                let tools = office.tools(trial.tool_dyn(office.pay.clone()));
                let agent =
                    Agent::builder(provider.clone()).tools(tools.clone()).config(|config| {
                        config.parallel_tool_execution = true;
                        config.llm_activity.retry_policy = Some(RetryPolicy {
                            initial_interval: Duration::from_millis(1),
                            ..RetryPolicy::default()
                        });
                    });
                let (agent, tools) = (agent.build(), Arc::new(tools));
                let mut conversation = Conversation::new();
                let ended = match is_sqlite {
                    true => {
                        let run_id = trial.run_id();
                        let context = runs.run(&run_id).open(provider, tools).await?;
                        let start = context.start("Pay the invoice 17.").await?;
                        let run = agent.run(&mut conversation, start);
                        run.durable(trial.context(context)).await?
                    }
                    false => {
                        let context = LocalDurableContext::new(provider, tools);
                        let run = agent.run(&mut conversation, "Pay the invoice 17.");
                        run.durable(trial.context(context)).await?
                    }
                };
                Ok(ended.response)
            };
            trial.execute(process).await;
        })
        .await
}

#[tokio::test]
async fn fault_kit_finds_an_effect_key_that_took_effect_twice() {
    let report = with_faults(true).await;
    report.assert_kept();
    assert!(report.crashes > 30, "{report}");
    let report = with_faults(false).await;
    let first = report.broken.first().unwrap();
    let kinds: Vec<_> = first.broken.iter().map(BrokenPromise::kind).collect();
    assert!(first.seed == 0 && kinds.contains(&"effect_key_repeated"), "{report}");
}
