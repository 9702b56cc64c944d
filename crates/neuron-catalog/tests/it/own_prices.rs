//! Prices and models that an application adds.

use neuron_catalog::{CallUsage, Catalog, Model, Money, Price, Rates};

use crate::support::*;

fn rates(input: &str, output: &str) -> Rates {
    Rates::per_million(usd(input), usd(output))
}

#[test]
fn unknown_price_names_the_vendor_the_model_and_the_fix() {
    for (vendor, model) in [("anthropic", "claude-next"), ("acme", "m"), ("", "")] {
        let error = catalog().cost(vendor, model, &usage(1, 1)).unwrap_err();
        let fix = format!("`Catalog::with_price({vendor:?}, {model:?}, ..)`");
        assert!(error.to_string().contains(&fix), "{error}");
        assert_eq!(catalog().reserve(vendor, model, 1, 1).unwrap_err(), error);
    }
}

#[test]
fn model_without_a_price_is_known_but_has_no_cost() {
    let mut model = Model::new("m");
    model.context_window = Some(8_192);
    let catalog = Catalog::empty().with_model("acme", model);
    assert_eq!(catalog.model("acme", "m").unwrap().context_window, Some(8_192));
    assert!(catalog.cost("acme", "m", &usage(1, 1)).is_err());
}

#[test]
fn own_price_replaces_the_bundled_price_and_keeps_the_limits() {
    let catalog = catalog().with_price("anthropic", "claude-sonnet-4-6", rates("2", "8"));
    for model in ["claude-sonnet-4-6", "claude-sonnet-4-6-20260217", "Claude-Sonnet-4-6"] {
        let cost = catalog.cost("anthropic", model, &usage(1_000_000, 1_000_000)).unwrap();
        assert_eq!(cost, usd("10"), "{model}");
    }
    let model = catalog.model("anthropic", "claude-sonnet-4-6").unwrap();
    assert_eq!(model.context_window, Some(1_000_000));
    assert_eq!(
        catalog.models("anthropic").filter(|model| model.id == "claude-sonnet-4-6").count(),
        1
    );
}

#[test]
fn own_price_applies_to_all_names_of_a_model() {
    let catalog = catalog().with_price("openai", "gpt-5-5", rates("1", "1"));
    for model in ["gpt-5-5", "gpt-5.5", "gpt-5.5-2026-04-23", "gpt-5.5-codex"] {
        assert_eq!(
            catalog.cost("openai", model, &usage(1_000_000, 0)).unwrap(),
            usd("1"),
            "{model}"
        );
    }
}

#[test]
fn own_price_does_not_apply_to_a_snapshot_that_is_a_model_of_its_own() {
    let catalog = catalog().with_price("openai", "gpt-4o", rates("1", "1"));
    for (model, cost) in [
        ("gpt-4o", "1"),
        ("gpt-4o-2024-11-20", "1"),
        ("gpt-4o-2031-01-01", "1"),
        ("gpt-4o-2024-05-13", "5"),
    ] {
        assert_eq!(
            catalog.cost("openai", model, &usage(1_000_000, 0)).unwrap(),
            usd(cost),
            "{model}"
        );
    }
}

#[test]
fn own_price_of_a_snapshot_applies_to_the_snapshot_alone() {
    let catalog = catalog().with_price("anthropic", "claude-sonnet-4-6-20260217", rates("1", "1"));
    let cost = |model| catalog.cost("anthropic", model, &usage(1_000_000, 0)).unwrap();
    assert_eq!(cost("claude-sonnet-4-6-20260217"), usd("1"));
    assert_eq!(cost("claude-sonnet-4-6"), usd("3"));
    assert_eq!(cost("claude-sonnet-4-6-20991231"), usd("3"));
}

#[test]
fn vendor_and_model_of_your_own_are_found_without_the_bundle() {
    let mut model = Model::new("acme/large").with_price(rates("1", "2"));
    model.aliases.push("large".into());
    let catalog = Catalog::empty().with_model("Acme", model);
    assert_eq!(catalog.cost("acme", "LARGE", &usage(0, 1_000_000)).unwrap(), usd("2"));
    assert_eq!(catalog.models("acme").count(), 1);
    assert!(catalog.model("anthropic", "claude-sonnet-4-6").is_none());
}

#[test]
fn own_price_may_have_tiers_fees_and_dates() {
    let mut price = Price::from(rates("1", "1"))
        .with_rates_above(500, rates("3", "3"))
        .with_rates_above(100, rates("2", "2"));
    price.call = usd("0.5");
    let later = Price::from(rates("9", "9")).starting(day("2030-01-01"));
    let model = Model::new("m").with_price(later).with_price(price);
    let catalog = catalog().with_model("acme", model);
    for (tokens, cost) in [(100, "0.5001"), (101, "0.500202"), (500, "0.501"), (501, "0.501503")] {
        assert_eq!(catalog.cost("acme", "m", &usage(tokens, 0)).unwrap(), usd(cost), "{tokens}");
    }
    let later = catalog.on(day("2030-01-01"));
    assert_eq!(later.cost("acme", "m", &usage(100, 0)).unwrap(), usd("0.0009"));
}

#[test]
fn local_model_may_have_a_price() {
    let catalog = catalog().with_price("ollama", "llama3.2", rates("0.01", "0.01"));
    assert_eq!(catalog.cost("ollama", "llama3.2", &usage(1_000_000, 0)).unwrap(), usd("0.01"));
}

#[test]
fn cost_does_not_overflow() {
    let most = CallUsage::from(&usage(usize::MAX, usize::MAX));
    let mut huge = Price::from(Rates::per_million(Money::MAX, Money::MAX));
    huge.call = Money::MAX;
    assert_eq!(huge.highest_cost(&most), Money::MAX);
    let mut searches = most;
    searches.web_searches = usize::MAX;
    assert_eq!(huge.cost(&searches), Money::MAX);
    let sonnet = catalog().cost("anthropic", "claude-sonnet-4-6", &usage(usize::MAX, 0)).unwrap();
    assert_eq!(sonnet.picodollars(), 3_000_000 * usize::MAX as u128);
}

#[test]
fn fraction_of_a_picodollar_is_rounded_up() {
    let price = Price::from(rates("0.0000001", "0"));
    assert_eq!(price.cost(&CallUsage::from(&usage(1, 0))), Money::from_picodollars(1));
    assert_eq!(price.cost(&CallUsage::from(&usage(10, 0))), Money::from_picodollars(1));
}

#[test]
fn model_is_stored_as_json() {
    let price =
        Price::from(rates("1", "2").with_cache_read(usd("0.1"))).starting(day("2026-12-01"));
    let model = Model::new("m").with_price(price.with_rates_above(10, rates("2", "4")));
    let json = serde_json::to_value(&model).unwrap();
    let price = serde_json::json!({
        "from": "2026-12-01", "input": "1.00", "output": "2.00", "cache_read": "0.10",
        "above": [{"tokens": 10, "input": "2.00", "output": "4.00"}],
    });
    assert_eq!(json, serde_json::json!({"id": "m", "prices": [price]}));
    assert_eq!(serde_json::from_value::<Model>(json).unwrap(), model);
}
