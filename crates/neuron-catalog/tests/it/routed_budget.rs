//! Budgets in money of agents whose router chooses the vendor and the model of each call.

use std::sync::Arc;
use std::time::Duration;

use neuron_catalog::{Catalog, Money, Rates};
use neuron_loop::{Agent, Conversation, LoopError};
use neuron_model::{Cost, Provider, ProviderError, ProviderInfo};
use neuron_router::{Route, Router};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{Budget, UsageLimits};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::support::*;

/// A call of 1,000 input and 100 output tokens costs nothing with `ollama`, $0.003 with `mid`, and $0.03 with `dear`. The
/// model `custom` of `mid` has no price.
fn prices() -> Catalog {
    Catalog::empty()
        .with_price("mid", "medium", Rates::per_million(usd("2"), usd("10")))
        .with_price("dear", "large", Rates::per_million(usd("20"), usd("100")))
}

fn busy(count: usize) -> ScriptedProvider {
    let busy = || ProviderError::ServiceUnavailable("529 busy".into());
    ScriptedProvider::new((0..count).map(|_| Reply::error(busy())))
}

fn answers(count: usize) -> ScriptedProvider {
    ScriptedProvider::new((0..count).map(|_| answer()))
}

fn answer() -> Reply {
    Reply::text("done").usage(usage(1_000, 100))
}

fn route(name: &str, vendor: &'static str, model: &str, script: &ScriptedProvider) -> Route {
    let info = ProviderInfo::new(vendor, "default");
    Route::new(name, script.clone().with_info(info)).model(model)
}

fn router(routes: impl IntoIterator<Item = Route>) -> Router {
    routes
        .into_iter()
        .fold(Router::builder(), |builder, route| builder.route(route))
        .build()
        .unwrap()
}

fn one_dollar() -> Budget {
    Budget::in_money(usd("1"), prices())
}

/// Runs an agent once, as a stream or not. The request names a model unless `model` is empty.
async fn run(
    provider: impl Provider + 'static,
    model: &str,
    budget: &Budget,
    is_streamed: bool,
) -> Result<(), LoopError> {
    let agent = Agent::builder(provider)
        .model(model)
        .config(|config| config.retries = 0)
        .budget(budget.clone())
        .build();
    let mut conversation = Conversation::new();
    let run = agent.run(&mut conversation, "Hi");
    if !is_streamed {
        return run.await.map(drop);
    }
    let mut events = run.stream();
    while let Some(event) = events.next().await {
        event?;
    }
    Ok(())
}

/// Regression test. Before the fix, every call of a router was counted with the price of the first route.
#[tokio::test]
async fn call_costs_the_price_of_the_route_that_answered() {
    for is_streamed in [false, true] {
        let dear = answers(1);
        let router = router([
            route("local", "ollama", "llama3.2", &busy(1)),
            route("large", "dear", "large", &dear),
        ]);
        let budget = one_dollar();
        run(router, "", &budget, is_streamed).await.unwrap();
        assert_eq!((budget.spent(), budget.reserved_money()), (usd("0.03"), Money::ZERO));
        assert_eq!(dear.calls(), 1);
    }
}

#[tokio::test]
async fn cheap_route_after_an_expensive_route_costs_its_own_price() {
    let router = router([
        route("large", "dear", "large", &busy(1)),
        route("medium", "mid", "medium", &answers(1)),
    ]);
    let budget = one_dollar();
    run(router, "", &budget, false).await.unwrap();
    assert_eq!(budget.spent(), usd("0.003"));
}

/// Regression test. Before the fix, the run went on, and its calls were counted with the price of the first route.
#[tokio::test]
async fn answer_of_a_route_without_a_price_ends_the_run() {
    for is_streamed in [false, true] {
        // The second route has another model of the same vendor.
        let router = router([
            route("medium", "mid", "medium", &busy(1)),
            route("custom", "mid", "custom", &answers(1)),
        ]);
        let budget = one_dollar();
        let error = run(router, "", &budget, is_streamed).await.unwrap_err();
        let LoopError::UnknownPrice(error) = error else { panic!("{error}") };
        assert_eq!((&*error.vendor, &*error.model), ("mid", "custom"));
        assert_eq!((budget.usage().total_tokens(), budget.requests()), (1_100, 1));
        assert!(budget.spent() > usd("0.01"), "the reserved money: {}", budget.spent());
        assert_eq!(budget.reserved_money(), Money::ZERO);
    }
}

/// Regression test. Before the fix, the run ended with an unknown price.
#[tokio::test]
async fn answer_with_an_alias_costs_the_price_of_the_requested_model() {
    for is_streamed in [false, true] {
        let alias = ScriptedProvider::new([answer().model("medium-2026")]);
        let router = router([
            route("a", "ollama", "llama3.2", &busy(1)),
            route("b", "mid", "medium", &alias),
        ]);
        let budget = one_dollar();
        run(router, "", &budget, is_streamed).await.unwrap();
        assert_eq!(budget.usage().cost, Some(usd("0.003").into()));
    }
}

/// A run without a limit in money has a cost too, and goes on if a price is unknown.
#[tokio::test]
async fn usage_of_a_run_has_the_cost_of_the_route_that_answered() {
    // If the price is unknown, the reservation for the first route counts.
    let reserved = Cost { amount: usd("0.10002"), is_complete: false };
    for (model, cost) in [("medium", usd("0.003").into()), ("custom", reserved)] {
        let router =
            router([route("a", "dear", "large", &busy(1)), route("b", "mid", model, &answers(1))]);
        let agent = Agent::builder(router).budget(Budget::priced(prices())).build();
        let result = agent.run(&mut Conversation::new(), "Hi").await.unwrap();
        assert_eq!(result.usage.cost, Some(cost), "{model}");
    }
}

/// Regression test. Before the fix, a request that names a route or a model of a later route was refused, because the
/// first vendor has no price for the name.
#[tokio::test]
async fn request_may_name_a_route_or_a_model_of_another_vendor() {
    for name in ["write", "large"] {
        let router = router([
            route("plan", "mid", "medium", &answers(0)),
            route("write", "dear", "large", &answers(1)),
        ]);
        let budget = one_dollar();
        run(router, name, &budget, false).await.unwrap();
        assert_eq!(budget.spent(), usd("0.03"), "{name}");
    }
}

#[tokio::test]
async fn first_route_may_have_no_price_if_it_does_not_answer() {
    let router = router([
        route("custom", "mid", "custom", &busy(1)),
        route("medium", "mid", "medium", &answers(1)),
    ]);
    let budget = one_dollar();
    run(router, "", &budget, false).await.unwrap();
    assert_eq!(budget.spent(), usd("0.003"));
}

#[tokio::test]
async fn router_inside_a_router_costs_the_price_of_the_inner_route() {
    let inner = router([
        route("local", "ollama", "llama3.2", &busy(1)),
        route("large", "dear", "large", &answers(1)),
    ]);
    let outer = router([Route::new("inner", inner)]);
    let budget = one_dollar();
    run(outer, "", &budget, false).await.unwrap();
    assert_eq!(budget.spent(), usd("0.03"));
}

#[tokio::test]
async fn refused_routes_cost_nothing() {
    let router = router([
        route("medium", "mid", "medium", &busy(1)),
        route("large", "dear", "large", &busy(1)),
    ]);
    let budget = one_dollar();
    run(router, "", &budget, false).await.unwrap_err();
    assert_eq!((budget.spent(), budget.requests()), (Money::ZERO, 1));
}

/// Runs an agent with a free first and an expensive second route 1,000 times. `model` is the name that the second route
/// requests. At most `in_progress` runs are active at the
/// same time. Returns the cost of all runs.
async fn thousand_runs(model: &str, delay: Duration, in_progress: usize) -> Money {
    const RUNS: usize = 1_000;
    let dear = ScriptedProvider::new((0..RUNS).map(|_| answer().model("large").delay(delay)));
    let router = router([
        route("local", "ollama", "llama3.2", &busy(RUNS)),
        route("large", "dear", model, &dear),
    ]);
    let budget = one_dollar();
    let part = budget.part(UsageLimits::default());
    let agent =
        Agent::builder(router).config(|config| config.retries = 0).budget(part.clone()).build();
    let (mut runs, permits) = (JoinSet::new(), Arc::new(Semaphore::new(in_progress)));
    for _ in 0..RUNS {
        let (agent, permits) = (agent.clone(), permits.clone());
        runs.spawn(async move {
            let _permit = permits.acquire().await.unwrap();
            agent.run(&mut Conversation::new(), "Hi").await
        });
    }
    let (mut done, mut refused) = (0, 0);
    while let Some(ended) = runs.join_next().await {
        match ended.unwrap() {
            Ok(_) => done += 1,
            Err(LoopError::UsageLimitExceeded(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((done + refused, dear.calls()), (RUNS, done));
    let spent: Money = std::iter::repeat_n(usd("0.03"), done).sum();
    assert_eq!((budget.spent(), budget.reserved_money()), (spent, Money::ZERO));
    assert_eq!((part.spent(), part.reserved_money()), (spent, Money::ZERO));
    spent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousand_runs_stay_within_the_budget() {
    for (delay, in_progress) in [(0, 4), (5, 20)] {
        let spent = thousand_runs("large", Duration::from_millis(delay), in_progress).await;
        assert!(spent > Money::ZERO && spent <= usd("1"), "{spent}");
    }
}

/// The price of the name in the response is known, but the price of the requested name is not. So no money is reserved.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousand_runs_without_a_known_price_exceed_the_budget_at_most_by_the_calls_in_progress() {
    for (delay, in_progress) in [(0, 4), (5, 20)] {
        let spent = thousand_runs("alias", Duration::from_millis(delay), in_progress).await;
        let most: Money = std::iter::repeat_n(usd("0.03"), in_progress).sum();
        assert!(spent > usd("0.97") && spent <= usd("1").saturating_add(most), "{spent}");
    }
}
