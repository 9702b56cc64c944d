//! The cost of runs, which is part of their usage.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_loop::{Agent, Budget, Conversation, LoopError, RunEvent};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ApprovalDecisions, Cost, HookAction, HookError, HookEvent, Message, Money, ObservabilityHook,
    Operation, OperationKind, OperationScope, Outcome, PendingApproval, PriceList, ProviderError,
    StreamEvent, TokenUsage, ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput,
    UnknownPrice, UsageLimits, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::approval::ByArguments;
use crate::money::{Fee, cents, chooser, history, summaries, usage};
use crate::support::*;

fn known(cents_: usize) -> Option<Cost> {
    Some(cents(cents_).into())
}

fn incomplete(cents_: usize) -> Option<Cost> {
    Some(Cost { amount: cents(cents_), is_complete: false })
}

/// Returns a reply that takes ten tokens, and thus costs $1.10.
fn ten() -> Reply {
    Reply::text("done").usage(usage(5, 5))
}

fn call() -> Reply {
    calls([json!({})]).usage(usage(5, 5))
}

#[tokio::test]
async fn cost_of_a_run_is_in_its_usage() {
    for way in WAYS {
        let ctx = ToolContext::default();
        let mut agent = setup([call(), ten(), ten()]).builder.budget(Budget::priced(Fee)).build();
        let result = run(way, &mut agent, &ctx).await.unwrap();
        assert_eq!(result.usage, TokenUsage { cost: known(220), ..usage(10, 10) }, "{way:?}");
        assert_eq!(agent.usage(), &result.usage);
        run(way, &mut agent, &ctx).await.unwrap();
        assert_eq!((agent.usage().cost, agent.total_usage().cost), (known(110), known(330)));
        assert_eq!(ctx.usage.total().cost, known(330));
    }
}

#[tokio::test]
async fn run_without_prices_has_no_cost() {
    for way in WAYS {
        for budget in [None, Some(Budget::new(UsageLimits::default()))] {
            let builder = setup([ten()]).builder;
            let mut agent = match budget {
                Some(budget) => builder.budget(budget).build(),
                None => builder.build(),
            };
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(result.usage, usage(5, 5));
        }
    }
}

/// The price list knows a second model, whose tokens cost ten cents.
struct TwoModels;

impl PriceList for TwoModels {
    fn cost(&self, vendor: &str, model: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
        match model {
            "large" => Ok(cents(10 * usage.total_tokens())),
            _ => Fee.cost(vendor, model, usage),
        }
    }

    fn reserve(&self, v: &str, m: &str, input: usize, out: usize) -> Result<Money, UnknownPrice> {
        self.cost(v, m, &usage(input, out))
    }
}

#[tokio::test]
async fn each_call_costs_the_price_of_its_model() {
    let agent = Agent::builder(ScriptedProvider::new([call(), ten()]))
        .tools(registry(&Log::default()))
        .prepare_turn(|turn| {
            if turn.run.turns == 1 {
                turn.settings.model = "large".into();
            }
        })
        .budget(Budget::priced(TwoModels))
        .build();
    let result = agent.run(&mut Conversation::new(), "go").await.unwrap();
    assert_eq!(result.usage.cost, known(110 + 100));
}

#[tokio::test]
async fn unknown_price_makes_the_cost_incomplete() {
    for way in WAYS {
        let builder = setup([ten()]).builder.model("unknown");
        let mut agent = builder.budget(Budget::priced(Fee)).build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(result.usage, TokenUsage { cost: Some(Cost::UNKNOWN), ..usage(5, 5) });
    }
}

#[tokio::test]
async fn response_that_ends_the_run_with_an_unknown_price_makes_the_cost_incomplete() {
    for way in WAYS {
        let provider = ScriptedProvider::new([ten().model("unknown")]);
        let budget = Budget::in_money(Money::from_dollars(100), Fee);
        let builder = Chat::builder(chooser(provider, "scripted-model"), window());
        let mut agent = builder.budget(budget.clone()).build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert!(error.contains("\"unknown\" of \"scripted\" is unknown"), "{error}");
        assert_eq!(agent.usage(), &budget.usage());
        let cost = agent.usage().cost.unwrap();
        assert!(cost.amount > cents(1_000) && !cost.is_complete, "the reserved money: {cost}");
    }
}

/// Regression test. Before the fix, the run counted the reserved cost, and the first budget the actual one.
#[tokio::test]
async fn unknown_price_of_a_second_budget_does_not_change_the_cost_of_the_run() {
    for way in WAYS {
        let provider = ScriptedProvider::new([ten().model("large")]);
        let first = Budget::priced(TwoModels);
        let budget = first.together_with(&Budget::in_money(Money::from_dollars(100), Fee));
        let builder = Chat::builder(chooser(provider, "scripted-model"), window());
        let mut agent = builder.budget(budget).build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert!(error.contains("\"large\" of \"scripted\" is unknown"), "{error}");
        assert_eq!((agent.usage().cost, first.usage().cost), (known(100), known(100)));
    }
}

#[tokio::test]
async fn compaction_counts() {
    for way in WAYS {
        let (strategy, _) = summaries();
        let builder = Chat::builder(ScriptedProvider::new([ten()]), strategy).messages(history());
        let mut agent = builder.budget(Budget::priced(Fee)).build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(result.usage.cost, known(200 + 110), "{way:?}");
    }
}

#[tokio::test]
async fn compaction_with_an_unknown_price_makes_the_cost_incomplete() {
    let (strategy, _) = summaries();
    let provider = chooser(ScriptedProvider::new([ten().model("scripted-model")]), "unknown");
    let builder = Chat::builder(provider, strategy).messages(history());
    let mut agent = builder.budget(Budget::priced(Fee)).build();
    let result = run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!(result.usage, TokenUsage { cost: incomplete(110), ..usage(75, 35) });
}

#[tokio::test]
async fn estimated_tokens_have_an_estimated_cost() {
    let budget = Budget::priced(Fee);
    let silent = Reply::text("done").usage(TokenUsage::default());
    let mut agent = setup([silent]).builder.budget(budget.clone()).build();
    let result = run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    assert!(result.usage.cost.unwrap().amount > cents(100) && result.usage.total_tokens() > 0);
    assert_eq!((agent.estimated_usage(), &budget.usage()), (&result.usage, &result.usage));
}

/// A refused call costs nothing, and a broken one its estimate, as in the budget.
#[tokio::test]
async fn failed_calls_cost_the_same_as_in_the_budget() {
    for way in WAYS {
        let broken = ProviderError::Network("the connection broke".into());
        let refused = ProviderError::RateLimit { retry_after: None };
        let replies = [Reply::error(broken), Reply::error(refused), ten()];
        let budget = Budget::priced(Fee);
        let builder = setup(replies).builder.retries(2).budget(budget.clone());
        let mut agent = builder.build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(result.usage.cost, budget.usage().cost, "{way:?}");
        let estimate = result.usage.cost.unwrap().amount.saturating_sub(cents(110));
        // The response is estimated with 1,000 tokens.
        assert!(estimate > cents(1_100) && estimate < cents(1_300), "{estimate}");
        assert_eq!(result.usage.total_tokens(), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_and_dropped_calls_cost_the_same_as_in_the_budget() {
    for way in WAYS {
        for is_dropped in [false, true] {
            let budget = Budget::priced(Fee);
            let mut agent = setup([call(), Reply::hang()]).builder.budget(budget.clone()).build();
            let ctx = ToolContext::default();
            let second = Duration::from_secs(1);
            if is_dropped {
                tokio::time::timeout(second, run(way, &mut agent, &ctx)).await.unwrap_err();
            } else {
                let cancel = async {
                    tokio::time::sleep(second).await;
                    ctx.cancellation_token.cancel();
                };
                let (ended, ()) = tokio::join!(run(way, &mut agent, &ctx), cancel);
                ended.unwrap_err();
            }
            let cost = agent.usage().cost;
            assert_eq!(cost, budget.usage().cost, "{way:?} {is_dropped}");
            // Two fees, and at least the tokens of the first call.
            assert!(cost.unwrap().amount > cents(210), "{cost:?}");
            assert_eq!((agent.usage().total_tokens(), agent.total_usage().cost), (10, cost));
            assert_eq!(ctx.usage.total().cost, cost);
            assert_eq!(budget.reserved_money(), Money::ZERO);
        }
    }
}

/// A tool that adds a usage of its own.
struct Spends(TokenUsage);

impl ToolDyn for Spends {
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
        ctx.usage.add(&self.0);
        Box::pin(async { Ok(ToolOutput::text("ok")) })
    }
}

#[tokio::test]
async fn tools_may_add_their_own_cost() {
    for (cost, total) in [(known(7), known(227)), (None, incomplete(220))] {
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(Spends(TokenUsage { cost, ..usage(1, 1) })));
        let builder = setup([call(), ten()]).builder.tools(tools);
        let mut agent = builder.budget(Budget::priced(Fee)).build();
        let result = run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(result.usage, TokenUsage { cost: total, ..usage(11, 11) });
        assert_eq!(agent.tool_usage().cost, cost);
    }
}

#[tokio::test]
async fn cost_is_kept_while_a_run_waits() {
    let agent = |reply: Reply, budget: Option<Budget>| {
        let builder = setup([reply]).builder.permission_policy(ByArguments);
        let builder = builder.pause_for_approval(true);
        match budget {
            Some(budget) => builder.budget(budget).build(),
            None => builder.build(),
        }
    };
    let ctx = ToolContext::default();
    let asks = calls([json!({"ask": "?"})]).usage(usage(5, 5));
    let error = agent(asks, Some(Budget::priced(Fee))).run_text("go", &ctx).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error}") };
    assert_eq!(pending.usage.cost, known(110));
    let stored = serde_json::to_string(&pending).unwrap();
    // A process without prices does not know the cost of its calls.
    for (prices, total) in [(Some(Budget::priced(Fee)), known(220)), (None, incomplete(110))] {
        let mut agent = agent(ten(), prices);
        let pending: PendingApproval = serde_json::from_str(&stored).unwrap();
        let decisions = ApprovalDecisions::approve_all(&pending);
        agent.restore(pending).unwrap();
        let result = agent.resume(decisions, &ctx).await.unwrap();
        assert_eq!(result.usage.cost, total);
    }
}

/// The source of a cost, and the cost.
type Noted = (&'static str, Option<Cost>);

/// A hook that logs the costs that it receives.
#[derive(Clone, Default)]
struct Costs(Arc<Mutex<Vec<Noted>>>);

impl Costs {
    fn note(&self, what: &'static str, usage: &TokenUsage) {
        self.0.lock().unwrap().push((what, usage.cost));
    }
}

impl ObservabilityHook for Costs {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        match event {
            HookEvent::PostLlmCall { response } => self.note("response", &response.usage),
            HookEvent::RunEnd { result: Ok(result) } => self.note("run", &result.usage),
            _ => {}
        }
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        let is_noted =
            matches!(operation.kind, OperationKind::Run { .. } | OperationKind::ModelCall { .. });
        is_noted.then(|| Box::new(CostScope(self.clone())) as Box<dyn OperationScope>)
    }
}

struct CostScope(Costs);

impl OperationScope for CostScope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        poll();
    }

    fn end(self: Box<Self>, outcome: Outcome<'_>) {
        match outcome {
            Outcome::Response(response) => self.0.note("scope of a call", &response.usage),
            Outcome::Run(result) => self.0.note("scope of the run", &result.usage),
            _ => {}
        }
    }
}

#[tokio::test]
async fn hooks_scopes_and_events_receive_the_cost() {
    let costs = Costs::default();
    let setup = setup([call(), ten()]);
    let mut agent = setup.builder.budget(Budget::priced(Fee)).hook(costs.clone()).build();
    let mut events = agent.agent.run(&mut agent.conversation, Message::user("go")).stream();
    while let Some(event) = events.next().await {
        if let RunEvent::Event(StreamEvent::Usage(usage)) = event.unwrap() {
            costs.note("event", &usage);
        }
    }
    let one = [("scope of a call", known(110)), ("response", known(110)), ("event", known(110))];
    let end = [("run", known(220)), ("scope of the run", known(220))];
    assert_eq!(*costs.0.lock().unwrap(), [&one[..], &one, &end].concat());
}
