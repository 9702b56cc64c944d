//! Reservations in budgets with a limit in money.

use neuron_types::{
    AnswerMetadata, AnswerRoute, Budget, CompletionResponse, LoopError, Message, Money, PriceList,
    StopReason, TokenUsage, UnknownPrice, UsageIteration, UsageLimits,
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
    let error = budget.charge_call("acme", "unknown", &usage(1, 1)).unwrap_err();
    assert_eq!(error, UnknownPrice::new("acme", "unknown"));
    assert_eq!(budget.spent(), usd("0.2"), "there is no reservation");
    assert_eq!(budget.usage(), usage(2, 2));
}

#[test]
fn charge_of_a_named_model_counts_its_cost() {
    let budget = budget("1");
    budget.charge_call("acme", "m", &usage(0, 7)).unwrap();
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
    assert_eq!((budget.spent(), budget.usage()), (Money::ZERO, usage(1, 1)));
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
            true => budget.reserve_routed_call("acme", "m", 1, 0),
            false => budget.reserve_call("acme", "m", 1, 0),
        };
        let result = reserved.unwrap().settle_response(&response(model, provider), &usage(100, 10));
        assert_eq!((budget.usage(), budget.requests()), (usage(100, 10), 1));
        assert_eq!(budget.reserved_money(), Money::ZERO);
        result.map(|()| budget.spent().to_string()).map_err(|error| (error.vendor, error.model))
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
    let held = budget.reserve_routed_call("acme", "unknown", 100, 10).unwrap();
    assert_eq!((budget.reserved_tokens(), state(&budget)), (110, (Money::ZERO, Money::ZERO)));
    held.settle_response(&response("m", Some("dear")), &usage(100, 10)).unwrap();
    assert_eq!(state(&budget), (usd("2"), Money::ZERO));
    assert!(budget.reserve_routed_call("acme", "unknown", 1, 1).is_err(), "the money is spent");
}

#[test]
fn unknown_price_of_a_response_counts_with_its_reservation() {
    let budget = budget("1");
    let held = budget.reserve_routed_call("acme", "m", 100, 10).unwrap();
    held.settle_response(&response("unknown", Some("dear")), &usage(1, 1)).unwrap_err();
    assert_eq!((budget.usage(), state(&budget)), (usage(1, 1), (usd("0.2"), Money::ZERO)));
}

#[test]
fn response_is_settled_in_a_budget_without_prices() {
    let budget = Budget::new(UsageLimits::default());
    let held = budget.reserve_routed_call("acme", "unknown", 1, 1).unwrap();
    held.settle_response(&response("unknown", Some("dear")), &usage(100, 10)).unwrap();
    assert_eq!((budget.usage(), budget.spent()), (usage(100, 10), Money::ZERO));
}
