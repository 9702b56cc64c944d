//! Properties of costs that hold for all models and all usages.

use neuron_catalog::{CallUsage, Catalog, Money, Price, Rates};
use neuron_model::TokenUsage;
use proptest::prelude::*;

use crate::support::*;

/// Some names of models with all kinds of rates, of which several have tiers.
const MODELS: [(&str, &str); 8] = [
    ("anthropic", "claude-sonnet-4-6"),
    ("anthropic", "claude-haiku-5-5"),
    ("openai", "gpt-5.4"),
    ("google", "gemini-2.5-pro"),
    ("google", "gemini-2.5-flash"),
    ("bedrock", "us.anthropic.claude-opus-5"),
    ("openrouter", "perplexity/sonar-deep-research"),
    ("perplexity", "sonar"),
];

fn model() -> impl Strategy<Value = (&'static str, &'static str)> {
    proptest::sample::select(&MODELS[..])
}

prop_compose! {
    /// A usage whose parts do not exceed their sums.
    fn usages()(
        fresh in 0..400_000_usize,
        read in 0..400_000_usize,
        written in 0..400_000_usize,
        text in 0..200_000_usize,
        reasoning in 0..200_000_usize,
    ) -> TokenUsage {
        TokenUsage {
            cache_read_tokens: Some(read),
            cache_creation_tokens: Some(written),
            reasoning_tokens: Some(reasoning),
            ..usage(fresh + read + written, text + reasoning)
        }
    }
}

fn rates() -> impl Strategy<Value = Rates> {
    // Up to six decimals.
    let rate =
        || (0..1_000_000_000_u128).prop_map(|rate| Money::from_picodollars(rate * 1_000_000));
    ([rate(), rate(), rate(), rate()], [rate(), rate(), rate(), rate()]).prop_map(|(a, b)| {
        let [input, output, read, write] = a;
        let [hour, reasoning, audio, output_audio] = b;
        let mut rates = Rates::per_million(input, output).with_cache_read(read);
        (rates.cache_write, rates.cache_write_1h) = (Some(write), Some(hour));
        rates.reasoning = Some(reasoning);
        (rates.input_audio, rates.cache_read_audio) = (Some(audio), Some(read));
        rates.output_audio = Some(output_audio);
        rates
    })
}

proptest! {
    #[test]
    fn cost_is_at_most_the_reservation(
        (vendor, model) in model(),
        usage in usages(),
        more_input in 0..300_000_usize,
        more_output in 0..10_000_usize,
        one_hour: bool,
    ) {
        let catalog = if one_hour { catalog().with_one_hour_cache() } else { catalog() };
        let (input, output) = (usage.input_tokens + more_input, usage.output_tokens + more_output);
        let reserved = catalog.reserve(vendor, model, input, output).unwrap();
        prop_assert!(catalog.cost(vendor, model, &usage).unwrap() <= reserved);
    }

    #[test]
    fn cost_is_at_most_the_highest_cost_with_any_rates(
        short in rates(),
        long in rates(),
        tier in 0..500_000_usize,
        usage in usages(),
        parts in [0..=100_usize, 0..=100, 0..=100, 0..=100],
        searches in 0..5_usize,
    ) {
        let mut price = Price::from(short).with_rates_above(tier, long);
        price.web_search = usd("0.01");
        let percent = |of: usize, part: usize| of * part / 100;
        let mut call = CallUsage::from(&usage);
        let fresh = call.input_tokens - call.cache_read_tokens - call.cache_write_tokens;
        let cached_audio = percent(call.cache_read_tokens, parts[0]);
        call.input_audio_tokens = cached_audio + percent(fresh, parts[1]);
        call.cache_read_audio_tokens = cached_audio;
        call.one_hour_cache_write_tokens = percent(call.cache_write_tokens, parts[2]);
        call.output_audio_tokens = percent(call.output_tokens - call.reasoning_tokens, parts[3]);
        call.web_searches = searches;
        prop_assert!(price.cost(&call) <= price.highest_cost(&call));
    }

    #[test]
    fn cost_is_additive_without_tiers_and_fees(rates in rates(), one in usages(), other in usages()) {
        let price = Price::from(rates);
        let cost = |usage: &TokenUsage| price.cost(&CallUsage::from(usage));
        let mut sum = one.clone();
        sum += &other;
        prop_assert_eq!(cost(&sum), cost(&one).checked_add(cost(&other)).unwrap());
    }

    #[test]
    fn more_tokens_never_cost_less((vendor, model) in model(), usage in usages(), more in usages()) {
        let catalog = catalog();
        let mut sum = usage.clone();
        sum += &more;
        let cost = |usage| catalog.cost(vendor, model, usage).unwrap();
        prop_assert!(cost(&usage) <= cost(&sum));
    }

    #[test]
    fn no_usage_and_no_name_panics(
        vendor in ".{0,12}",
        model in ".{0,24}",
        counts in [any::<usize>(), any::<usize>(), any::<usize>(), any::<usize>(), any::<usize>()],
    ) {
        let catalog = Catalog::bundled();
        let _ = catalog.model(&vendor, &model);
        let usage = TokenUsage {
            cache_read_tokens: Some(counts[2]),
            cache_creation_tokens: Some(counts[3]),
            reasoning_tokens: Some(counts[4]),
            ..usage(counts[0], counts[1])
        };
        for (vendor, model) in MODELS {
            catalog.cost(vendor, model, &usage).unwrap();
        }
    }
}
