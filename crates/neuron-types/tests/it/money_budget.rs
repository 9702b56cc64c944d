//! Reservations in budgets with a limit in money.

use std::panic::{AssertUnwindSafe, catch_unwind};

use neuron_types::{
    AnswerMetadata, AnswerRoute, Budget, CompletionResponse, Cost, LoopError, Message, Money,
    PriceList, RouteModel, StopReason, TokenUsage, UnknownPrice, UsageIteration, UsageLimits,
};

/// A token of output costs a cent, and a token of input a tenth of a cent, for every model but `unknown`. The vendor
/// `dear` charges ten times as much.
struct Cents;

impl PriceList for Cents {
    fn cost(&self, vendor: &str, model: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
        let passes = usage.iterations.iter().flatten().filter_map(|pass| pass.model.as_deref());
        if passes.chain([model]).any(|model| model == "unknown") {
            return Err(UnknownPrice::new(vendor, model));
        }
        let mills = usage.input_tokens + 10 * usage.output_tokens;
        let factor = if vendor == "dear" { 10 } else { 1 };
        Ok(Money::from_picodollars(mills as u128 * factor * 1_000_000_000))
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

fn usd(text: &str) -> Money {
    text.parse().unwrap()
}

fn usage(input_tokens: usize, output_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, output_tokens, ..Default::default() }
}

fn budget(limit: &str) -> Budget {
    Budget::in_money(usd(limit), Cents)
}

/// Returns a cost of this amount, without the cost of other calls.
fn incomplete(amount: &str) -> Option<Cost> {
    Some(Cost { amount: usd(amount), is_complete: false })
}

/// Returns the spent and the reserved money.
fn state(budget: &Budget) -> (Money, Money) {
    (budget.spent(), budget.reserved_money())
}

#[test]
fn money_is_settled_released_or_kept_like_tokens() {
    let budget = budget("100");
    let reserve = || budget.reserve_call("acme", "m", 100, 10).unwrap();
    let held = reserve();
    assert_eq!(state(&budget), (Money::ZERO, usd("0.2")));
    held.settle(&usage(50, 5));
    assert_eq!(state(&budget), (usd("0.1"), Money::ZERO));
    drop(reserve());
    reserve().release();
    assert_eq!(state(&budget), (usd("0.1"), Money::ZERO), "nothing was called");
    let mut lost = reserve();
    lost.start();
    drop(lost);
    assert_eq!(state(&budget), (usd("0.3"), Money::ZERO), "the cost is not known");
    reserve().settle_at_least(&usage(1, 1));
    assert_eq!(budget.spent(), usd("0.5"), "the reservation is larger");
    reserve().settle_at_least(&usage(1_000, 0));
    assert_eq!(budget.spent(), usd("1.5"), "the usage is larger");
    assert_eq!(budget.requests(), 4);
}

#[test]
fn limit_allows_exactly_its_amount() {
    let budget = budget("0.4");
    let held = budget.reserve_call("acme", "m", 100, 10).unwrap();
    let other = budget.reserve_call("acme", "m", 100, 10).unwrap();
    let refused = budget.reserve_call("acme", "m", 1, 0).unwrap_err();
    let text = "usage limit exceeded: budget: money limit exceeded: $0.401 > $0.40";
    assert_eq!(refused.to_string(), text);
    assert!(matches!(refused, LoopError::UsageLimitExceeded(_)));
    other.release();
    held.settle(&usage(1_000, 0));
    assert_eq!(state(&budget), (usd("1"), Money::ZERO), "a call may cost more than its estimate");
    assert!(budget.reserve_call("acme", "m", 0, 0).is_err());
    assert!(budget.reserve_tool_calls(1).is_err(), "tools of this response do not start");
}

#[test]
fn reservation_of_money_does_not_block_tool_calls() {
    let budget = budget("0.2");
    let _call = budget.reserve_call("acme", "m", 100, 10).unwrap();
    let mut tools = budget.reserve_tool_calls(1).unwrap();
    tools.spend_tool_call();
    assert_eq!((budget.tool_calls(), budget.reserved_money()), (1, usd("0.2")));
}

#[test]
fn unknown_price_reserves_nothing() {
    let tokens = Budget::new(UsageLimits::default());
    let budget = tokens.together_with(&budget("1"));
    for refused in [
        budget.reserve_call("acme", "unknown", 1, 1),
        budget.part(UsageLimits::default()).reserve_call("acme", "unknown", 1, 1),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(&error, LoopError::UnknownPrice(price) if price.model == "unknown"));
        assert!(!error.is_retryable());
    }
    assert_eq!((tokens.reserved_tokens(), tokens.requests()), (0, 0));
}

#[test]
fn cost_that_becomes_unknown_counts_with_its_reservation() {
    let budget = budget("1");
    let pass = UsageIteration { model: Some("unknown".into()), ..Default::default() };
    let used = TokenUsage { iterations: Some(vec![pass]), ..usage(1, 1) };
    budget.reserve_call("acme", "m", 100, 10).unwrap().settle(&used);
    assert_eq!(state(&budget), (usd("0.2"), Money::ZERO));
    let charged = budget.charge_call("acme", "unknown", &usage(1, 1));
    assert_eq!(charged, (Some(Cost::UNKNOWN), Err(UnknownPrice::new("acme", "unknown"))));
    assert_eq!(budget.spent(), usd("0.2"), "there is no reservation");
    assert_eq!(budget.usage(), TokenUsage { cost: incomplete("0.2"), ..usage(2, 2) });
}

#[test]
fn charge_of_a_named_model_counts_its_cost() {
    let budget = budget("1");
    budget.charge_call("acme", "m", &usage(0, 7)).1.unwrap();
    assert_eq!(budget.spent(), usd("0.07"));
}

#[test]
fn part_counts_its_own_cost_and_the_cost_of_the_whole() {
    let whole = budget("1");
    let (one, other) = (whole.part(UsageLimits::default()), whole.part(UsageLimits::default()));
    one.reserve_call("acme", "m", 0, 10).unwrap().settle(&usage(0, 10));
    other.reserve_call("acme", "m", 0, 5).unwrap().settle(&usage(0, 5));
    assert_eq!((one.spent(), other.spent(), whole.spent()), (usd("0.1"), usd("0.05"), usd("0.15")));
    assert!(one.reserve_call("acme", "m", 0, 86).is_err(), "the limit of the whole applies");
    assert_eq!(one.money_limit(), Some(usd("1")));
}

#[test]
fn each_of_two_limits_in_money_applies() {
    let (user, day) = (budget("0.1"), budget("10"));
    let both = user.together_with(&day);
    both.reserve_call("acme", "m", 0, 10).unwrap().settle(&usage(0, 10));
    assert_eq!((user.spent(), day.spent(), both.spent()), (usd("0.1"), usd("0.1"), usd("0.1")));
    assert!(both.reserve_call("acme", "m", 1, 0).is_err());
    assert!(day.reserve_call("acme", "m", 1, 0).is_ok());
}

#[test]
fn budget_without_prices_counts_no_money() {
    let budget = Budget::new(UsageLimits::default());
    budget.reserve_call("acme", "unknown", 1, 1).unwrap().settle(&usage(1, 1));
    assert_eq!((budget.spent(), budget.money_limit()), (Money::ZERO, None));
}

#[test]
fn reservation_without_a_model_needs_a_budget_without_prices() {
    let budget = budget("1");
    assert!(matches!(budget.reserve(1, 1), Err(LoopError::UnknownPrice(_))));
    budget.charge(&usage(1, 1));
    assert_eq!(budget.usage(), TokenUsage { cost: incomplete("0"), ..usage(1, 1) });
}

/// Returns a response of a model, with the provider of the route that answered.
fn response(model: &str, provider: Option<&str>) -> CompletionResponse {
    let mut metadata = AnswerMetadata::default();
    metadata.route = provider.map(|provider| AnswerRoute::new("route", provider));
    CompletionResponse {
        id: "1".into(),
        model: model.into(),
        message: Message::assistant("hi").with_metadata(&metadata),
        usage: usage(100, 10),
        stop_reason: StopReason::EndTurn,
    }
}

#[test]
fn response_is_settled_with_the_vendor_and_the_model_that_answered() {
    let settle = |is_routed: bool, model: &str, provider: Option<&str>| {
        let budget = budget("100");
        let reserved = match is_routed {
            true => budget.reserve_routed_call(&[RouteModel::new("acme", "m")], 1, 0),
            false => budget.reserve_call("acme", "m", 1, 0),
        };
        let (cost, known) =
            reserved.unwrap().settle_response(&response(model, provider), &usage(100, 10));
        assert_eq!((budget.usage().input_tokens, budget.requests()), (100, 1));
        assert_eq!(budget.reserved_money(), Money::ZERO);
        assert_eq!((cost, cost.unwrap().is_complete), (budget.usage().cost, known.is_ok()));
        known.map(|()| budget.spent().to_string()).map_err(|error| (error.vendor, error.model))
    };
    let unknown = |vendor: &str| Err((vendor.to_owned(), "unknown".to_owned()));
    let cheap = || Ok("$0.20".to_owned());
    let dear = || Ok("$2.00".to_owned());
    // A provider with one model may answer with another name of it.
    assert_eq!(settle(false, "unknown", None), cheap());
    assert_eq!(settle(true, "other", None), cheap());
    assert_eq!(settle(true, "unknown", None), unknown("acme"));
    assert_eq!(settle(true, "m", Some("dear")), dear());
    assert_eq!(settle(true, "unknown", Some("dear")), unknown("dear"));
    assert_eq!(settle(true, "", Some("acme")), cheap(), "the requested model");
    // A wrapper may report the name of the router, but not that it chooses the model.
    assert_eq!(settle(false, "m", Some("dear")), dear());
    assert_eq!(settle(false, "unknown", Some("dear")), unknown("dear"));
}

#[test]
fn routed_call_with_an_unknown_price_reserves_no_money() {
    let budget = budget("1");
    let held = budget.reserve_routed_call(&[RouteModel::new("acme", "unknown")], 100, 10).unwrap();
    assert_eq!((budget.reserved_tokens(), state(&budget)), (110, (Money::ZERO, Money::ZERO)));
    held.settle_response(&response("m", Some("dear")), &usage(100, 10)).1.unwrap();
    assert_eq!(state(&budget), (usd("2"), Money::ZERO));
    assert!(budget.reserve_routed_call(&[], 1, 1).is_err(), "the money is spent");
}

/// Regression test. Before the fix, only the price of the first route was reserved. A broken call of another route
/// counted with this price.
#[test]
fn routed_call_is_reserved_with_the_highest_price_of_its_routes() {
    let routes = [("acme", "unknown"), ("acme", "m"), ("dear", "m"), ("acme", "m")]
        .map(|(vendor, model)| RouteModel::new(vendor, model));
    let reserve = |budget: &Budget, routes: &[RouteModel]| {
        let mut held = budget.reserve_routed_call(routes, 100, 10).unwrap();
        held.start();
        held
    };
    let known = |routes: &[RouteModel]| {
        let budget = budget("100");
        let held = reserve(&budget, routes);
        (held.cost(), held.settle_at_least(&usage(200, 10)), budget.spent())
    };
    let twice = Some(usd("2").into());
    assert_eq!(known(&routes[1..]), (twice, Some(usd("3").into()), usd("3")));
    assert_eq!(known(&routes), (incomplete("2"), incomplete("3"), usd("3")));
    let budget = budget("100");
    drop(reserve(&budget, &routes));
    assert_eq!(budget.usage().cost, incomplete("2"));
}

/// Regression test. Before the fix, the reservation stayed in the budget for ever.
#[test]
fn panic_in_a_price_list_leaves_no_reservation() {
    /// A call costs a dollar, but the cost of a completed call panics.
    struct Broken;

    impl PriceList for Broken {
        fn cost(&self, _: &str, _: &str, _: &TokenUsage) -> Result<Money, UnknownPrice> {
            panic!("broken price list")
        }

        fn reserve(&self, _: &str, _: &str, _: usize, _: usize) -> Result<Money, UnknownPrice> {
            Ok(usd("1"))
        }
    }

    let (whole, other) = (Budget::in_money(usd("9"), Broken), budget("1"));
    let part = whole.part(UsageLimits::default()).together_with(&other);
    let mut held = part.reserve_call("acme", "m", 100, 10).unwrap();
    held.start();
    let settled = catch_unwind(AssertUnwindSafe(|| held.settle(&usage(1, 1))));
    settled.unwrap_err();
    for budget in [&part, &whole, &other] {
        assert_eq!((budget.reserved_tokens(), budget.reserved_money()), (0, Money::ZERO));
    }
    assert_eq!((part.spent(), whole.spent(), other.spent()), (usd("1"), usd("1"), usd("0.011")));
}

#[test]
fn unknown_price_of_a_response_counts_with_its_reservation() {
    let budget = budget("1");
    let held = budget.reserve_routed_call(&[RouteModel::new("acme", "m")], 100, 10).unwrap();
    held.settle_response(&response("unknown", Some("dear")), &usage(1, 1)).1.unwrap_err();
    assert_eq!(budget.usage(), TokenUsage { cost: incomplete("0.2"), ..usage(1, 1) });
    assert_eq!(budget.reserved_money(), Money::ZERO);
}

#[test]
fn response_is_settled_in_a_budget_without_prices() {
    let budget = Budget::new(UsageLimits::default());
    let held = budget.reserve_routed_call(&[RouteModel::new("acme", "unknown")], 1, 1).unwrap();
    assert_eq!(held.cost(), None);
    let (cost, known) = held.settle_response(&response("unknown", Some("dear")), &usage(100, 10));
    known.unwrap();
    assert_eq!((cost, budget.usage(), budget.spent()), (None, usage(100, 10), Money::ZERO));
}

/// Regression test. Before the fix, a route whose response named an alias without a price had an unknown cost.
#[test]
fn response_with_an_alias_costs_the_price_of_the_requested_model() {
    let settle = |requested: &str, answered: &str| {
        let mut response = response(answered, Some("dear"));
        let mut metadata = response.message.metadata().unwrap();
        metadata.route.as_mut().unwrap().model = requested.into();
        response.message = Message::assistant("hi").with_metadata(&metadata);
        let budget = budget("100");
        let held = budget.reserve_routed_call(&[RouteModel::new("acme", "m")], 1, 0).unwrap();
        let (cost, known) = held.settle_response(&response, &usage(100, 10));
        known.map(|()| cost.unwrap().to_string())
    };
    assert_eq!(settle("m", "unknown"), Ok("$2.00".to_owned()));
    assert_eq!(settle("unknown", "m"), Ok("$2.00".to_owned()));
    assert_eq!(settle("unknown", "unknown"), Err(UnknownPrice::new("dear", "unknown")));
}

/// Regression test. Before the fix, the call had the price of the reserved model.
#[test]
fn response_without_a_model_costs_the_price_of_its_route() {
    /// Calls of `large` cost ten dollars, and all others cost a dollar.
    struct Sizes;

    impl PriceList for Sizes {
        fn cost(&self, _: &str, model: &str, _: &TokenUsage) -> Result<Money, UnknownPrice> {
            Ok(usd(if model == "large" { "10" } else { "1" }))
        }

        fn reserve(&self, v: &str, m: &str, _: usize, _: usize) -> Result<Money, UnknownPrice> {
            self.cost(v, m, &TokenUsage::default())
        }
    }

    for (route, cost) in [("large", "10"), ("small", "1"), ("", "1")] {
        let mut answer = AnswerRoute::new("route", "acme");
        answer.model = route.into();
        let mut metadata = AnswerMetadata::default();
        metadata.route = Some(answer);
        let mut response = response("", None);
        response.message = Message::assistant("hi").with_metadata(&metadata);
        let budget = Budget::in_money(usd("100"), Sizes);
        let held = budget.reserve_routed_call(&[RouteModel::new("acme", "small")], 1, 0).unwrap();
        let settled = held.settle_response(&response, &usage(1, 0));
        assert_eq!(settled, (Some(usd(cost).into()), Ok(())), "{route}");
    }
}

/// Regression test. Before the fix, the error had no cost, although both budgets count one.
#[test]
fn error_of_a_later_budget_comes_with_the_cost_of_the_first() {
    /// Every call costs three dollars, and reserves a dollar.
    struct Dollars;

    impl PriceList for Dollars {
        fn cost(&self, _: &str, _: &str, _: &TokenUsage) -> Result<Money, UnknownPrice> {
            Ok(usd("3"))
        }

        fn reserve(&self, _: &str, _: &str, _: usize, _: usize) -> Result<Money, UnknownPrice> {
            Ok(usd("1"))
        }
    }

    let (first, second) = (Budget::priced(Dollars), budget("1"));
    let both = first.together_with(&second);
    let held = both.reserve_routed_call(&[RouteModel::new("acme", "m")], 100, 10).unwrap();
    let (cost, known) = held.settle_response(&response("unknown", None), &usage(1, 1));
    assert_eq!(known, Err(UnknownPrice::new("acme", "unknown")));
    assert_eq!((cost, first.usage().cost), (Some(usd("3").into()), cost));
    assert_eq!(second.usage().cost, incomplete("0.2"));
    // Regression check. Before the fix, `charge_call` returned only the error.
    let (cost, known) = both.charge_call("acme", "unknown", &usage(1, 1));
    assert_eq!(known, Err(UnknownPrice::new("acme", "unknown")));
    assert_eq!((cost, first.usage().cost), (Some(usd("3").into()), Some(usd("6").into())));
}

#[test]
fn priced_budget_counts_costs_without_a_limit() {
    let budget = Budget::priced(Cents);
    assert_eq!((budget.money_limit(), budget.usage().cost), (None, Some(Cost::default())));
    let held = budget.reserve_call("acme", "m", 100, 10).unwrap();
    assert_eq!(held.cost(), Some(usd("0.2").into()));
    assert_eq!(held.settle(&usage(1_000_000, 0)), Some(usd("1000").into()));
    let mut held = budget.reserve_call("acme", "m", 100, 10).unwrap();
    held.start();
    assert_eq!(held.settle_at_least(&usage(0, 1)), Some(usd("0.2").into()));
    let charged = budget.charge_call("acme", "m", &usage(0, 1));
    assert_eq!(charged, (Some(usd("0.01").into()), Ok(())));
    assert_eq!(budget.usage().cost, Some(usd("1000.21").into()));
}

#[test]
fn unknown_price_without_a_limit_makes_the_cost_incomplete() {
    let call = |settle: &dyn Fn(&Budget) -> Option<Cost>| {
        let budget = Budget::priced(Cents);
        budget.charge_call("acme", "m", &usage(0, 1)).1.unwrap();
        assert_eq!(settle(&budget), Some(Cost::UNKNOWN));
        assert_eq!(budget.usage().cost, incomplete("0.01"));
        assert_eq!(budget.reserved_money(), Money::ZERO);
    };
    let reserve = |budget: &Budget| {
        let mut held = budget.reserve_call("acme", "unknown", 1, 1).unwrap();
        held.start();
        held
    };
    call(&|budget| reserve(budget).settle(&usage(1, 1)));
    call(&|budget| reserve(budget).settle_at_least(&usage(0, 0)));
    call(&|budget| reserve(budget).settle_response(&response("x", None), &usage(1, 1)).0);
    call(&|budget| budget.charge_call("acme", "unknown", &usage(1, 1)).0);
    call(&|budget| reserve(budget).cost());
    call(&|budget| {
        budget.charge(&usage(1, 1));
        Some(Cost::UNKNOWN)
    });
}

#[test]
fn released_call_with_an_unknown_price_costs_nothing() {
    let budget = Budget::priced(Cents);
    budget.reserve_call("acme", "unknown", 1, 1).unwrap().release();
    drop(budget.reserve_call("acme", "unknown", 1, 1).unwrap());
    assert_eq!(budget.usage().cost, Some(Cost::default()));
}

#[test]
fn first_budget_with_prices_returns_the_cost() {
    /// Every call costs a dollar.
    struct Dollar;

    impl PriceList for Dollar {
        fn cost(&self, _: &str, _: &str, _: &TokenUsage) -> Result<Money, UnknownPrice> {
            Ok(usd("1"))
        }

        fn reserve(&self, _: &str, _: &str, _: usize, _: usize) -> Result<Money, UnknownPrice> {
            Ok(usd("1"))
        }
    }

    let (tokens, cents, dollars) =
        (Budget::new(UsageLimits::default()), Budget::priced(Cents), Budget::priced(Dollar));
    let all = tokens.together_with(&cents).together_with(&dollars);
    let cost = all.reserve_call("acme", "m", 0, 1).unwrap().settle(&usage(0, 1));
    assert_eq!((cost, all.usage().cost), (Some(usd("0.01").into()), cost));
    assert_eq!((cents.spent(), dollars.spent()), (usd("0.01"), usd("1")));
    assert_eq!(tokens.usage().cost, None);
    // A limit in the second budget applies, although the first budget does not know the price.
    let both = dollars.together_with(&budget("1"));
    let error = both.reserve_call("acme", "unknown", 1, 1).unwrap_err();
    assert!(matches!(error, LoopError::UnknownPrice(_)));
}

#[test]
fn sum_of_costs_saturates() {
    struct All;

    impl PriceList for All {
        fn cost(&self, _: &str, _: &str, _: &TokenUsage) -> Result<Money, UnknownPrice> {
            Ok(Money::MAX)
        }

        fn reserve(&self, _: &str, _: &str, _: usize, _: usize) -> Result<Money, UnknownPrice> {
            Ok(Money::MAX)
        }
    }

    let budget = Budget::priced(All);
    let (one, other) = (budget.reserve_call("a", "m", 1, 1), budget.reserve_call("a", "m", 1, 1));
    for held in [one, other] {
        assert_eq!(held.unwrap().settle(&usage(1, 1)), Some(Money::MAX.into()));
    }
    assert_eq!(budget.usage().cost, Some(Money::MAX.into()));
    // With a limit, the largest amount is refused.
    let limited = Budget::in_money(usd("1"), All);
    assert!(matches!(limited.reserve_call("a", "m", 1, 1), Err(LoopError::UsageLimitExceeded(_))));
}
