//! Tests of the metrics of runs, with their attributes and values.

use futures_util::StreamExt;
use neuron_testing::Reply;
use neuron_types::{Budget, Message, Money, PriceList, ProviderError, TokenUsage, UnknownPrice};
use serde_json::json;

use crate::support::agents::Chat;
use crate::support::conventions::Version;
use crate::support::look::Behavior;
use crate::support::setup::{Vendor, cases, context};
use crate::support::telemetry::Exported;

/// Returns the sum of a metric over all points. If `of` is set, includes only the points whose attribute `of.0` has the
/// value `of.1`.
#[track_caller]
fn sum(exported: &Exported, metric: &str, of: Option<(&str, &str)>) -> f64 {
    let points = exported.points(metric);
    let counts = |point: &&(_, _, f64)| of.is_none_or(|(name, value)| has(point, name, value));
    points.iter().filter(counts).map(|(_, _, sum)| sum).sum()
}

fn has(
    point: &(crate::support::attributes::Attributes, u64, f64),
    name: &str,
    value: &str,
) -> bool {
    point.0.text(name) == Some(value)
}

/// Returns the number of measurements of a metric, and the error types of the failed operations. Counts only
/// measurements of `operation`, or all if `operation` is `None`.
#[track_caller]
fn count(exported: &Exported, metric: &str, operation: Option<&str>) -> (u64, Vec<String>) {
    let points = exported.points(metric);
    let of = |point: &&_| {
        operation.is_none_or(|operation| has(point, "gen_ai.operation.name", operation))
    };
    let points: Vec<_> = points.iter().filter(of).collect();
    let errors = points.iter().filter_map(|(attributes, _, _)| attributes.text("error.type"));
    (points.iter().map(|(_, count, _)| count).sum(), errors.map(str::to_owned).collect())
}

#[tokio::test]
async fn each_version_records_its_metrics() {
    for case in cases() {
        for streams in [false, true] {
            let look = Reply::tool_call("call_1", "look", json!({}));
            let setup = case.start([look, Reply::text("Blue.")]).await;
            let (mut agent, ctx) = (setup.agent(Behavior::Echo), context());
            if streams {
                let message = Message::user("What is it like?");
                agent.run(message, &ctx).stream().collect::<Vec<_>>().await;
            } else {
                agent.run("What is it like?", &ctx).await.unwrap();
            }
            let exported = setup.finish();
            let mut expected = match case.version {
                Version::V1_41 => {
                    vec!["gen_ai.client.operation.duration", "gen_ai.client.token.usage"]
                }
                Version::Latest => vec![
                    "gen_ai.client.inference.duration",
                    "gen_ai.client.inference.operation.input_tokens",
                    "gen_ai.client.inference.operation.output_tokens",
                    "gen_ai.client.inference.usage.input_tokens",
                    "gen_ai.client.inference.usage.output_tokens",
                    "gen_ai.execute_tool.duration",
                    "gen_ai.invoke_agent.duration",
                    "gen_ai.invoke_agent.inference_calls",
                    "gen_ai.invoke_agent.tool_calls",
                ],
            };
            let first_chunk = match case.version {
                Version::V1_41 => "gen_ai.client.operation.time_to_first_chunk",
                Version::Latest => "gen_ai.client.inference.time_to_first_chunk",
            };
            expected.extend(streams.then_some(first_chunk));
            if case.version == Version::Latest && case.vendor == Vendor::Responses {
                // The Responses API always reports these counts, even if they are zero.
                expected.extend([
                    "gen_ai.client.inference.usage.cache_read.input_tokens",
                    "gen_ai.client.inference.usage.cache_write.input_tokens",
                    "gen_ai.client.inference.usage.reasoning.output_tokens",
                ]);
            }
            expected.sort_unstable();
            assert_eq!(exported.metric_names(), expected, "{case:?}");
            if streams {
                assert_eq!(count(&exported, first_chunk, None), (2, vec![]));
            }
            match case.version {
                Version::V1_41 => {
                    let duration = "gen_ai.client.operation.duration";
                    assert_eq!(count(&exported, duration, Some("chat")), (2, vec![]));
                    assert_eq!(count(&exported, duration, Some("execute_tool")), (1, vec![]));
                    assert_eq!(count(&exported, duration, Some("invoke_agent")), (1, vec![]));
                }
                Version::Latest => {
                    assert_eq!(sum(&exported, "gen_ai.invoke_agent.inference_calls", None), 2.0);
                    assert_eq!(sum(&exported, "gen_ai.invoke_agent.tool_calls", None), 1.0);
                }
            }
        }
    }
}

#[tokio::test]
async fn failures_are_measured_with_error_type() {
    for case in cases() {
        let error = ProviderError::RateLimit { retry_after: None };
        let setup = case.start([Reply::error(error)]).await;
        setup.agent(Behavior::Echo).run("What is it like?", &context()).await.unwrap_err();
        let exported = setup.finish();
        let failed = (1, vec!["RateLimit".to_owned()]);
        match case.version {
            Version::V1_41 => {
                let duration = "gen_ai.client.operation.duration";
                assert_eq!(count(&exported, duration, Some("chat")), failed);
                assert_eq!(count(&exported, duration, Some("invoke_agent")), failed);
            }
            Version::Latest => {
                assert_eq!(count(&exported, "gen_ai.client.inference.duration", None), failed);
                assert_eq!(count(&exported, "gen_ai.invoke_agent.duration", None), failed);
            }
        }
    }
}

/// Checks that the recorded input tokens include cached tokens. Anthropic reports cached tokens separately, and OpenAI
/// includes them in the input tokens.
#[tokio::test]
async fn input_tokens_include_cached_tokens() {
    for case in cases() {
        let written = (case.vendor == Vendor::Anthropic).then_some(20);
        let thought = (case.vendor != Vendor::Anthropic).then_some(4);
        let usage = TokenUsage {
            input_tokens: 100,
            output_tokens: 9,
            cache_read_tokens: Some(60),
            cache_creation_tokens: written,
            reasoning_tokens: thought,
            ..TokenUsage::default()
        };
        let setup = case.start([Reply::text("Blue.").usage(usage)]).await;
        setup.agent(Behavior::Echo).run("What is it like?", &context()).await.unwrap();
        let exported = setup.finish();
        let forest = exported.forest();
        let (run, chat) = (forest.root(), &forest.root().children[0].attributes);
        let cache_write = match case.version {
            Version::V1_41 => "gen_ai.usage.cache_creation.input_tokens",
            Version::Latest => "gen_ai.usage.cache_write.input_tokens",
        };
        assert_eq!(chat.int("gen_ai.usage.input_tokens"), Some(100));
        assert_eq!(chat.int("gen_ai.usage.output_tokens"), Some(9));
        assert_eq!(chat.int("gen_ai.usage.cache_read.input_tokens"), Some(60));
        // The Responses API reports a count of zero, and other APIs omit the count.
        assert_eq!(chat.int(cache_write).unwrap_or_default(), written.unwrap_or_default() as i64);
        let reasoning = chat.int("gen_ai.usage.reasoning.output_tokens").unwrap_or_default();
        assert_eq!(reasoning, thought.unwrap_or_default() as i64);
        assert_eq!(run.attributes.int("gen_ai.usage.input_tokens"), Some(100));
        let metrics = match case.version {
            Version::V1_41 => {
                let tokens = "gen_ai.client.token.usage";
                let kind = |kind| sum(&exported, tokens, Some(("gen_ai.token.type", kind)));
                assert_eq!(exported.points(tokens).len(), 2);
                [kind("input"), kind("output")]
            }
            Version::Latest => {
                let tokens = |name: &str| {
                    sum(&exported, &format!("gen_ai.client.inference.usage.{name}"), None)
                };
                assert_eq!(tokens("cache_read.input_tokens"), 60.0);
                if let Some(written) = written {
                    assert_eq!(tokens("cache_write.input_tokens"), written as f64);
                }
                if let Some(thought) = thought {
                    assert_eq!(tokens("reasoning.output_tokens"), thought as f64);
                }
                [tokens("input_tokens"), tokens("output_tokens")]
            }
        };
        assert_eq!(metrics, [100.0, 9.0], "{case:?}");
    }
}

/// A price list in which a token costs a quarter of a dollar. The field is the number of tokens above which the price is
/// unknown.
struct Quarters(usize);

impl PriceList for Quarters {
    fn cost(&self, vendor: &str, model: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
        match usage.total_tokens() {
            tokens if tokens > self.0 => Err(UnknownPrice::new(vendor, model)),
            tokens => Ok(Money::from_picodollars(tokens as u128 * 250_000_000_000)),
        }
    }

    fn reserve(&self, _: &str, _: &str, _: usize, _: usize) -> Result<Money, UnknownPrice> {
        Ok(Money::ZERO)
    }
}

#[tokio::test]
async fn cost_is_recorded_if_the_budget_has_prices() {
    let usage = |output_tokens| TokenUsage { output_tokens, ..TokenUsage::default() };
    for case in cases() {
        for (most, of_run) in [(10, Some(2.75)), (9, None)] {
            let look = Reply::tool_call("call_1", "look", json!({})).usage(usage(1));
            let replies = [look, Reply::text("Blue.").usage(usage(10))];
            let setup = case.start(replies).await;
            let agent = setup.plain(Behavior::Echo).hook(setup.hook());
            let mut agent = Chat::new(agent.budget(Budget::priced(Quarters(most))));
            agent.run("What is it like?", &context()).await.unwrap();
            let exported = setup.finish();
            let forest = exported.forest();
            let run = forest.root();
            assert_eq!(run.attributes.double("neuron.usage.cost"), of_run, "{case:?}");
            let calls = run.children.iter().filter(|span| span.name.starts_with("chat"));
            let costs: Vec<_> =
                calls.map(|call| call.attributes.double("neuron.usage.cost")).collect();
            // An unknown cost is left out. It is not zero.
            assert_eq!(costs, [Some(0.25), of_run.map(|_| 2.5)], "{case:?}");
            let metric = exported.metric("neuron.client.cost");
            assert_eq!(metric.unit, "{USD}");
            assert_eq!(sum(&exported, "neuron.client.cost", None), of_run.unwrap_or(0.25));
            let point = &exported.points("neuron.client.cost")[0].0;
            assert_eq!(point.text("gen_ai.request.model"), Some(case.vendor.model()));
            assert_eq!(point.text("gen_ai.provider.name"), Some(case.vendor.name()));
        }
    }
}

#[tokio::test]
async fn cost_of_a_run_without_prices_is_not_recorded() {
    for case in cases() {
        let setup = case.start([Reply::text("Blue.")]).await;
        setup.agent(Behavior::Echo).run("What is it like?", &context()).await.unwrap();
        let exported = setup.finish();
        let is_cost = |name: &str| name.contains("cost");
        assert!(!exported.metric_names().into_iter().any(is_cost));
        let forest = exported.forest();
        let spans = [forest.root(), &forest.root().children[0]];
        assert!(spans.iter().all(|span| !span.attributes.iter().any(|(name, _)| is_cost(name))));
    }
}
