//! Limits in money: calls that the provider refused, and compactions.

use neuron_context::SummarizationStrategy;
use neuron_loop::{Budget, OnLimit};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    Message, Money, PriceList, ProviderError, ProviderInfo, RouteModel, TokenUsage, ToolContext,
    UnknownPrice, UsageLimits,
};

use crate::support::*;

/// A call of the scripted model costs a dollar, and a cent for each token. Other models have no price.
pub(crate) struct Fee;

impl PriceList for Fee {
    fn cost(&self, vendor: &str, model: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
        if model != "scripted-model" {
            return Err(UnknownPrice::new(vendor, model));
        }
        Ok(cents(100 + usage.total_tokens()))
    }

    fn reserve(
        &self,
        vendor: &str,
        model: &str,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Money, UnknownPrice> {
        self.cost(vendor, model, &usage(input_tokens, output_tokens))
    }
}

pub(crate) fn cents(cents: usize) -> Money {
    Money::from_picodollars(cents as u128 * 10_000_000_000)
}

pub(crate) fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

pub(crate) fn budget(dollars: u64) -> Budget {
    Budget::in_money(Money::from_dollars(dollars), Fee)
}

/// Regression test. Before the fix, a refused call cost the fee of a call.
#[tokio::test]
async fn refused_call_costs_no_fee() {
    for way in WAYS {
        let budget = budget(1_000);
        let limited = ProviderError::RateLimit { retry_after: None };
        let setup = setup([Reply::error(limited), Reply::text("hi").usage(usage(10, 10))]);
        let mut agent = setup.builder.budget(budget.clone()).retries(1).build();
        run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!((budget.spent(), budget.requests()), (cents(120), 2), "{way:?}");
        assert_eq!(budget.reserved_money(), Money::ZERO);
    }
}

/// Returns a router with one route, whose model is `default`.
pub(crate) fn chooser(provider: ScriptedProvider, default: &'static str) -> ScriptedProvider {
    let routes = vec![RouteModel::new("scripted", default)].leak();
    provider.with_info(ProviderInfo::new("scripted", default).with_routes(routes))
}

/// Returns a strategy that summarises the history before the first call, and its provider.
pub(crate) fn summaries() -> (SummarizationStrategy<ScriptedProvider>, ScriptedProvider) {
    let provider = ScriptedProvider::new([Reply::text("a summary").usage(usage(70, 30))]);
    (SummarizationStrategy::new(provider.clone(), 1, 10), provider)
}

pub(crate) fn history() -> Vec<Message> {
    vec![Message::user("question"), Message::assistant("x".repeat(400))]
}

/// Regression test. Before the fix, the strategy called its model, although the budget was exhausted.
#[tokio::test]
async fn exhausted_budget_does_not_compact() {
    for way in WAYS {
        for on_limit in [OnLimit::Fail, OnLimit::Finalize] {
            let tokens = Budget::new(UsageLimits::default().with_total_tokens_limit(100));
            tokens.charge(&usage(100, 0));
            let money = budget(1);
            money.charge_call("scripted", "scripted-model", &usage(0, 0)).1.unwrap();
            for budget in [tokens, money] {
                let used = budget.usage();
                let (strategy, summarizer) = summaries();
                let provider = ScriptedProvider::new([Reply::text("never")]);
                let builder = Chat::builder(provider.clone(), strategy).messages(history());
                let mut agent = builder.budget(budget.clone()).on_limit(on_limit).build();
                let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
                assert!(error.starts_with("usage limit exceeded: budget: "), "{error}");
                assert_eq!((summarizer.calls(), provider.calls()), (0, 0), "{way:?}");
                assert_eq!(budget.usage(), used);
                assert_eq!((budget.reserved_tokens(), budget.requests()), (0, 0));
            }
        }
    }
}

/// Regression test. Before the fix, the strategy called its model, and its tokens cost nothing.
#[tokio::test]
async fn unknown_price_does_not_compact() {
    let (strategy, summarizer) = summaries();
    let builder = Chat::builder(ScriptedProvider::new([Reply::text("never")]), strategy);
    let mut agent = builder.messages(history()).model("unknown").budget(budget(1_000)).build();
    let error = run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap_err();
    assert!(error.contains("\"unknown\" of \"scripted\" is unknown"), "{error}");
    assert_eq!(summarizer.calls(), 0);
}

#[tokio::test]
async fn compaction_before_a_chosen_model_costs_the_price_of_the_default_model() {
    let (strategy, _) = summaries();
    let reply = Reply::text("done").model("scripted-model").usage(usage(10, 10));
    let provider = chooser(ScriptedProvider::new([reply]), "scripted-model");
    let budget = budget(1_000);
    let builder = Chat::builder(provider, strategy).messages(history()).model("a route");
    let mut agent = builder.budget(budget.clone()).build();
    run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!(budget.spent(), cents(200 + 120));
}

/// Regression test. Before the fix, the strategy called its model. The run then ended with an error, although the price of
/// the model that answers is known.
#[tokio::test]
async fn compaction_with_an_unknown_price_is_omitted() {
    let (strategy, summarizer) = summaries();
    let reply = Reply::text("done").model("scripted-model").usage(usage(10, 10));
    let provider = ScriptedProvider::new([reply]);
    let budget = budget(1_000);
    let builder = Chat::builder(chooser(provider.clone(), "unknown"), strategy);
    let mut agent = builder.messages(history()).budget(budget.clone()).build();
    run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!((summarizer.calls(), provider.calls()), (0, 1));
    assert_eq!(budget.spent(), cents(120));
    assert_eq!(agent.usage(), &budget.usage());
}
