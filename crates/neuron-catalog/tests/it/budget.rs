//! Budgets with the prices of the catalogue, and agents that share them.

use std::time::Duration;

use neuron_catalog::{Catalog, Money, Rates};
use neuron_loop::{Agent, Conversation, LoopError};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{Budget, UsageLimits};
use tokio::task::JoinSet;

use crate::support::*;

/// Prices of the scripted provider: a call of 1,000 input and 100 output tokens costs $0.0045.
fn prices() -> Catalog {
    let rates = Rates::per_million(usd("3"), usd("15"));
    Catalog::empty().with_price("scripted", "scripted-model", rates)
}

fn replies(count: usize) -> ScriptedProvider {
    ScriptedProvider::new((0..count).map(|_| Reply::text("done").usage(usage(1_000, 100))))
}

#[tokio::test]
async fn cost_of_a_run_is_settled_in_the_budget() {
    let budget = Budget::in_money(usd("1"), prices());
    let run = budget.part(UsageLimits::default());
    let agent = Agent::builder(replies(2)).build();
    agent.run(&mut Conversation::new(), "Hi").budget(run.clone()).await.unwrap();
    assert_eq!((run.spent(), budget.spent()), (usd("0.0045"), usd("0.0045")));
    agent.run(&mut Conversation::new(), "Hi").budget(budget.clone()).await.unwrap();
    assert_eq!((run.spent(), budget.spent()), (usd("0.0045"), usd("0.009")));
    assert_eq!(budget.reserved_money(), Money::ZERO);
    assert_eq!(run.money_limit(), Some(usd("1")));
}

#[tokio::test]
async fn run_ends_before_a_call_that_does_not_fit() {
    let budget = Budget::in_money(usd("0.01"), prices());
    let provider = replies(1);
    let agent = Agent::builder(provider.clone()).budget(budget.clone()).build();
    // The first response is reserved with 1,000 tokens, which cost $0.015.
    let error = agent.run(&mut Conversation::new(), "Hi").await.unwrap_err();
    let LoopError::UsageLimitExceeded(text) = &error else { panic!("{error}") };
    assert!(text.starts_with("budget: money limit exceeded: $0.015"), "{text}");
    assert!(text.ends_with(" > $0.01"), "{text}");
    assert_eq!((provider.calls(), budget.spent()), (0, Money::ZERO));
}

#[tokio::test]
async fn model_without_a_price_is_not_called() {
    let provider = replies(1);
    let agent = Agent::builder(provider.clone()).build();
    let budget = Budget::in_money(usd("1"), Catalog::bundled());
    let error = agent.run(&mut Conversation::new(), "Hi").budget(budget).await.unwrap_err();
    let LoopError::UnknownPrice(error) = error else { panic!("{error}") };
    assert_eq!((&*error.vendor, &*error.model), ("scripted", "scripted-model"));
    assert_eq!(provider.calls(), 0);
}

#[tokio::test]
async fn limits_in_money_and_in_tokens_apply_together() {
    let money = Budget::in_money(usd("1"), prices());
    let tokens = Budget::new(UsageLimits::default().with_request_limit(1));
    let both = tokens.together_with(&money);
    let agent = Agent::builder(replies(2)).budget(both.clone()).build();
    agent.run(&mut Conversation::new(), "Hi").await.unwrap();
    assert_eq!((both.spent(), money.spent()), (usd("0.0045"), usd("0.0045")));
    let error = agent.run(&mut Conversation::new(), "Hi").await.unwrap_err();
    assert!(error.to_string().contains("budget: request limit exceeded: 2 > 1"), "{error}");
    assert_eq!(money.reserved_money(), Money::ZERO);
}

/// Runs an agent 1,000 times at the same time with a budget of one dollar. Returns the number of runs that were not
/// refused, and the cost of all runs.
async fn thousand_runs(reply: impl Fn() -> Reply, call: Money) -> (usize, Money) {
    const RUNS: usize = 1_000;
    let budget = Budget::in_money(usd("1"), prices());
    let provider = ScriptedProvider::new((0..RUNS).map(|_| reply()));
    let agent = Agent::builder(provider.clone()).budget(budget.clone()).build();
    let mut runs = JoinSet::new();
    for _ in 0..RUNS {
        let agent = agent.clone();
        runs.spawn(async move { agent.run(&mut Conversation::new(), "Hi").await });
    }
    let (mut done, mut refused) = (0, 0);
    while let Some(ended) = runs.join_next().await {
        match ended.unwrap() {
            Ok(_) => done += 1,
            Err(LoopError::UsageLimitExceeded(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((done + refused, provider.calls()), (RUNS, done));
    let spent: Money = std::iter::repeat_n(call, done).sum();
    assert_eq!((budget.spent(), budget.reserved_money()), (spent, Money::ZERO));
    (done, spent)
}

/// The response of each call is estimated with 1,000 tokens, which cost $0.015. At most 66 calls fit into a dollar at the
/// same time.
const MOST_IN_PROGRESS: usize = 66;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousand_runs_never_exceed_the_budget_if_the_estimates_are_high_enough() {
    let call = usd("0.0045");
    let (_, spent) = thousand_runs(|| Reply::text("done").usage(usage(1_000, 100)), call).await;
    assert!(spent > usd("0.9") && spent <= usd("1"), "{spent}");
    let slow = || Reply::text("done").usage(usage(1_000, 100)).delay(Duration::from_millis(50));
    let (_, spent) = thousand_runs(slow, call).await;
    assert!(spent <= usd("1"), "{spent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousand_runs_exceed_the_budget_at_most_by_the_calls_in_progress() {
    let call = usd("0.033");
    // Each call is complete before its thread starts another one.
    let (_, spent) = thousand_runs(|| Reply::text("done").usage(usage(1_000, 2_000)), call).await;
    assert!(spent <= usd("1.132"), "{spent}");
    let slow = || Reply::text("done").usage(usage(1_000, 2_000)).delay(Duration::from_millis(50));
    let (_, spent) = thousand_runs(slow, call).await;
    let in_progress: Money = std::iter::repeat_n(call, MOST_IN_PROGRESS).sum();
    assert!(spent <= usd("1").saturating_add(in_progress), "{spent}");
}
