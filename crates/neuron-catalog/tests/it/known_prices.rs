//! The costs of calls, calculated by hand from the vendors' price pages.

use neuron_catalog::{CallUsage, InputKind};
use neuron_model::{TokenUsage, UsageIteration};

use crate::support::*;

#[track_caller]
fn costs(vendor: &str, model: &str, usage: &TokenUsage, dollars: &str) {
    assert_eq!(catalog().cost(vendor, model, usage).unwrap(), usd(dollars), "{vendor} {model}");
}

/// <https://platform.claude.com/docs/en/about-claude/pricing>: Claude Sonnet 4.6 costs $3 for input, $3.75 for writes of
/// five minutes, $6 for writes of one hour, $0.30 for cache hits, and $15 for output.
#[test]
fn anthropic_has_prices_for_reading_and_writing_caches() {
    let usage = TokenUsage {
        cache_read_tokens: Some(50_000),
        cache_creation_tokens: Some(10_000),
        reasoning_tokens: Some(700),
        ..usage(62_000, 1_000)
    };
    // 2,000 × 3 + 50,000 × 0.30 + 10,000 × 3.75 + 1,000 × 15 = 73,500 millionths of a dollar
    costs("anthropic", "claude-sonnet-4-6", &usage, "0.0735");
    // 10,000 × 6 instead of 10,000 × 3.75
    let hour = catalog().with_one_hour_cache();
    assert_eq!(hour.cost("anthropic", "claude-sonnet-4-6", &usage).unwrap(), usd("0.096"));
    let catalog = catalog();
    let price = catalog.price("anthropic", "claude-sonnet-4-6").unwrap();
    let mut mixed = CallUsage::from(&usage);
    mixed.one_hour_cache_write_tokens = 4_000;
    // 6,000 × 3.75 + 4,000 × 6
    assert_eq!(price.cost(&mixed), usd("0.0825"));
}

/// <https://platform.claude.com/docs/en/about-claude/pricing>: $10 for 1,000 web searches.
#[test]
fn web_searches_have_a_fee() {
    let mut searches = CallUsage::from(&usage(0, 0));
    searches.web_searches = 3;
    let catalog = catalog();
    let price = catalog.price("anthropic", "claude-opus-5").unwrap();
    assert_eq!(price.cost(&searches), usd("0.03"));
}

/// <https://developers.openai.com/api/docs/pricing>: GPT-5.4 mini costs $0.75 for input, $0.075 for cached input, and
/// $4.50 for output.
#[test]
fn openai_has_a_price_for_cached_input() {
    let usage = TokenUsage {
        cache_read_tokens: Some(8_000),
        reasoning_tokens: Some(1_500),
        ..usage(10_000, 2_000)
    };
    // 2,000 × 0.75 + 8,000 × 0.075 + 2,000 × 4.50 = 11,100
    costs("openai", "gpt-5.4-mini", &usage, "0.0111");
    costs("openai", "gpt-5.4-mini-2026-03-17", &usage, "0.0111");
}

/// <https://ai.google.dev/gemini-api/docs/pricing>: Gemini 2.5 Pro costs $1.25 for input and $10 for output, and $2.50
/// and $15 if the prompt exceeds 200,000 tokens.
#[test]
fn long_prompt_raises_the_price_of_the_whole_call() {
    costs("google", "gemini-2.5-pro", &usage(200_000, 1_000), "0.26");
    costs("google", "gemini-2.5-pro", &usage(200_001, 1_000), "0.5150025");
    costs("gcp.gemini", "models/gemini-2.5-pro", &usage(200_000, 1_000), "0.26");
}

/// <https://ai.google.dev/gemini-api/docs/pricing>: Gemini 2.5 Flash costs $0.30 for text and images, $1 for audio,
/// $0.03 and $0.10 for cached input, and $2.50 for output.
#[test]
fn audio_has_its_own_price() {
    let usage = TokenUsage { cache_read_tokens: Some(1_000), ..usage(10_000, 100) };
    let mut usage = CallUsage::from(&usage);
    (usage.input_audio_tokens, usage.cache_read_audio_tokens) = (4_000, 400);
    let catalog = catalog();
    let price = catalog.price("google", "gemini-2.5-flash").unwrap();
    // 5,400 × 0.30 + 600 × 0.03 + 3,600 × 1 + 400 × 0.10 + 100 × 2.50 = 5,528
    assert_eq!(price.cost(&usage), usd("0.005528"));
}

/// <https://openrouter.ai/perplexity/sonar-deep-research>: $2 for input, $8 for output, $3 for reasoning.
#[test]
fn reasoning_may_have_its_own_price() {
    let usage = TokenUsage { reasoning_tokens: Some(9_000), ..usage(1_000, 10_000) };
    // 1,000 × 2 + 1,000 × 8 + 9,000 × 3 = 37,000
    costs("openrouter", "perplexity/sonar-deep-research", &usage, "0.037");
}

/// <https://docs.perplexity.ai/docs/getting-started/pricing>: Sonar costs $1 for input and output, and $12 for 1,000
/// requests with the largest search context.
#[test]
fn fee_of_a_request_is_part_of_its_cost() {
    costs("perplexity", "sonar", &usage(1_000, 1_000), "0.014");
}

/// <https://ai.google.dev/gemini-api/docs/pricing>: the price doubles on 1 December 2026.
#[test]
fn price_may_start_on_a_date() {
    let cost =
        |date| catalog().on(day(date)).cost("google", "gemini-4-argon", &usage(1_000_000, 0));
    assert_eq!(cost("2026-11-30").unwrap(), usd("2"));
    assert_eq!(cost("2026-12-01").unwrap(), usd("4"));
}

/// Bedrock's regional profiles cost a tenth more than its global profiles:
/// <https://platform.claude.com/docs/en/about-claude/pricing>.
#[test]
fn bedrock_has_prices_for_regions() {
    let usage = usage(1_000_000, 0);
    costs("bedrock", "global.anthropic.claude-sonnet-4-6-v1:0", &usage, "3");
    costs("aws.bedrock", "us.anthropic.claude-sonnet-4-6-v1:0", &usage, "3.3");
    costs("bedrock", "anthropic.claude-sonnet-4-6", &usage, "3.3");
}

#[test]
fn azure_and_vertex_have_the_prices_of_the_vendor() {
    let usage = usage(1_000_000, 0);
    costs("azure.ai.openai", "gpt-5.4-mini", &usage, "0.75");
    costs("gcp.vertex_ai", "claude-sonnet-5", &usage, "2");
}

#[test]
fn pass_of_another_model_has_the_price_of_that_model() {
    let pass = |model: Option<&str>, input_tokens, output_tokens| UsageIteration {
        kind: "message".into(),
        model: model.map(Into::into),
        input_tokens,
        output_tokens,
        ..UsageIteration::default()
    };
    let passes = vec![pass(None, 1_000, 100), pass(Some("claude-opus-5"), 2_000, 200)];
    let both = TokenUsage { iterations: Some(passes), ..usage(3_000, 300) };
    // 1,000 × 3 + 100 × 15, and 2,000 × 5 + 200 × 25
    costs("anthropic", "claude-sonnet-4-6", &both, "0.0195");
    // The passes of one call, and another call without passes.
    let sum = TokenUsage { input_tokens: 4_000, ..both.clone() };
    costs("anthropic", "claude-sonnet-4-6", &sum, "0.0225");
    let unknown = TokenUsage { iterations: Some(vec![pass(Some("claude-x"), 1, 1)]), ..both };
    let error = catalog().cost("anthropic", "claude-sonnet-4-6", &unknown).unwrap_err();
    assert_eq!((&*error.vendor, &*error.model), ("anthropic", "claude-x"));
}

#[test]
fn models_of_ollama_are_free_on_your_own_machine() {
    costs("ollama", "llama3.2", &usage(1_000_000, 1_000_000), "0");
    // Regression test. Before the fix, the name in another form was free.
    for model in ["gpt-oss:120b-cloud", "gpt-oss:120b-Cloud", " gpt-oss:120b-cloud "] {
        assert!(catalog().cost("ollama", model, &usage(1, 1)).is_err(), "{model}");
    }
    assert!(catalog().cost("ollama-cloud", "gpt-oss:120b", &usage(1, 1)).is_err());
}

/// <https://platform.claude.com/docs/en/models/sonnet-4-6/overview>: 1M tokens of context, text, images and documents.
#[test]
fn model_has_limits_and_kinds_of_input() {
    let catalog = catalog();
    let model = catalog.model("anthropic", "claude-sonnet-4-6-20260217").unwrap();
    assert_eq!(model.id, "claude-sonnet-4-6");
    assert_eq!(model.context_window, Some(1_000_000));
    assert_eq!(model.input, [InputKind::Text, InputKind::Image, InputKind::Pdf]);
    // <https://developers.openai.com/api/docs/models/gpt-5.4-mini>
    let model = catalog.model("openai", "gpt-5.4-mini").unwrap();
    assert_eq!((model.context_window, model.max_output), (Some(400_000), Some(128_000)));
}
