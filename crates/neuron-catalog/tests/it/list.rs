//! The bundled data, compared with the calculation of the crate from which the prices come.

use std::time::{Duration, SystemTime};

use chrono::NaiveDate;
use genai_prices::{Calculator, PriceRequest, Usage, UsageKey};
use neuron_catalog::CallUsage;
use neuron_model::TokenUsage;

use crate::support::*;

/// The names of the vendors here and in the public list, with the number of models that the bundle has at least.
const VENDORS: [(&str, &str, usize); 18] = [
    ("anthropic", "anthropic", 20),
    ("azure", "azure", 15),
    ("bedrock", "aws", 100),
    ("cerebras", "cerebras", 2),
    ("cohere", "cohere", 5),
    ("deepseek", "deepseek", 5),
    ("fireworks", "fireworks", 40),
    ("google", "google", 45),
    ("groq", "groq", 25),
    ("minimax", "minimax", 8),
    ("mistral", "mistral", 25),
    ("moonshotai", "moonshotai", 5),
    ("openai", "openai", 80),
    ("openrouter", "openrouter", 700),
    ("perplexity", "perplexity", 15),
    ("together", "together", 80),
    ("xai", "x-ai", 15),
    ("zai", "zai", 15),
];

fn time(day: NaiveDate) -> SystemTime {
    let start = day.and_hms_opt(7, 0, 0).unwrap().and_utc().timestamp();
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(start).unwrap())
}

/// Calls of all sizes, with all parts.
fn calls() -> Vec<CallUsage> {
    let mut calls = Vec::new();
    for input in [0, 1, 1_000, 100_001, 200_000, 200_001, 272_001, 900_000] {
        let usage = TokenUsage {
            cache_read_tokens: Some(input / 3),
            cache_creation_tokens: Some(input / 5),
            reasoning_tokens: Some(700),
            ..usage(input, 1_000)
        };
        let call = CallUsage::from(&usage);
        calls.push(call);
        let mut searches = call;
        (searches.one_hour_cache_write_tokens, searches.web_searches) = (input / 7, 2);
        let mut audio = call;
        (audio.input_audio_tokens, audio.cache_read_audio_tokens) = (input / 4, input / 9);
        audio.output_audio_tokens = 200;
        calls.extend([searches, audio]);
    }
    calls
}

fn listed(call: &CallUsage) -> Usage {
    let number = |tokens: usize| tokens as f64;
    let mut listed = Usage::from([
        (UsageKey::INPUT_TOKENS, number(call.input_tokens)),
        (UsageKey::CACHE_READ_TOKENS, number(call.cache_read_tokens)),
        (UsageKey::CACHE_WRITE_TOKENS, number(call.cache_write_tokens)),
        (UsageKey::OUTPUT_TOKENS, number(call.output_tokens)),
        (UsageKey::OUTPUT_REASONING_TOKENS, number(call.reasoning_tokens)),
        (UsageKey::INPUT_AUDIO_TOKENS, number(call.input_audio_tokens)),
        (UsageKey::CACHE_AUDIO_READ_TOKENS, number(call.cache_read_audio_tokens)),
        (UsageKey::OUTPUT_AUDIO_TOKENS, number(call.output_audio_tokens)),
    ]);
    listed.insert("cache_write_1h_tokens", number(call.one_hour_cache_write_tokens));
    listed.insert("web_searches", number(call.web_searches));
    listed
}

#[test]
fn costs_agree_with_the_public_list() {
    let list = Calculator::bundled();
    let (mut compared, mut skipped) = (0, Vec::new());
    for date in ["2026-11-27", "2027-01-01"] {
        let catalog = catalog().on(day(date));
        for (vendor, listed_vendor, _) in VENDORS {
            for model in catalog.models(vendor) {
                // Some ids of the list are not names in a request. `regional` stands for several regions.
                let names = [&model.id].into_iter().chain(&model.aliases);
                let names = names.map(|name| name.replace("regional.", "us."));
                let expected = |name: &str, call: &CallUsage| {
                    let usage = listed(call);
                    let request = PriceRequest::new(name, &usage)
                        .with_provider_id(listed_vendor)
                        .with_timestamp(time(day(date)));
                    let found = list.calculate(&request).ok();
                    found.filter(|found| found.model_id == model.id).map(|found| found.total_price)
                };
                let is_listed = |name: &String| expected(name, &CallUsage::default()).is_some();
                let Some(name) = names.into_iter().find(is_listed) else {
                    skipped.push(model.id.clone());
                    continue;
                };
                let price = catalog.price(vendor, &name).unwrap();
                for call in calls() {
                    let expected = expected(&name, &call).unwrap();
                    let cost = price.cost(&call).as_f64();
                    // OpenRouter lists some prices with endless decimals, which are rounded to six.
                    let exactness =
                        if vendor == "openrouter" { 1e-5 * cost } else { 1e-12 + 1e-12 * cost };
                    let is_equal = (cost - expected).abs() <= exactness;
                    assert!(is_equal, "{vendor} {name} {call:?}: {cost}, expected {expected}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 50_000, "{compared}");
    skipped.dedup();
    assert!(skipped.len() < 10, "{skipped:?}");
}

#[test]
fn bundle_has_the_models_of_all_vendors() {
    let catalog = catalog();
    for (vendor, _, least) in VENDORS {
        let models: Vec<_> = catalog.models(vendor).collect();
        assert!(models.len() >= least, "{vendor} has {} models", models.len());
        for model in models {
            let found = catalog.model(vendor, &model.id).unwrap();
            assert_eq!(found.id, model.id, "{vendor}");
            assert!(catalog.price(vendor, &model.id).is_ok(), "{vendor} {}", model.id);
            assert_ne!(model.context_window, Some(0));
            assert_ne!(model.max_output, Some(0));
        }
    }
}

/// The default models of the providers must have prices.
#[test]
fn default_models_of_the_providers_have_prices_and_limits() {
    let catalog = catalog();
    for (vendor, model) in [("anthropic", "claude-sonnet-4-6"), ("openai", "gpt-5.4-mini")] {
        let model = catalog.model(vendor, model).unwrap();
        assert!(model.context_window.is_some() && model.max_output.is_some(), "{model:?}");
        assert!(!model.input.is_empty() && !model.prices.is_empty(), "{model:?}");
    }
}
