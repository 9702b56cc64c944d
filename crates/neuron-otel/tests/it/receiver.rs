//! Tests of the export pipeline and the receiver in `support`, with spans and metrics that the tests create themselves.

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::support::checker::Checker;
use crate::support::conventions::Version;
use crate::support::receiver::Answer;
use crate::support::telemetry::Telemetry;

#[test]
fn exported_spans_form_a_tree() {
    let telemetry = Telemetry::start();
    {
        let agent = tracing::info_span!(
            "invoke_agent",
            otel.name = "invoke_agent planner",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.provider.name = "anthropic",
            gen_ai.agent.name = "planner",
        )
        .entered();
        let chat = tracing::info_span!(
            "chat",
            otel.name = "chat claude",
            otel.kind = "client",
            otel.status_code = "ERROR",
            otel.status_description = "too many requests",
            error.r#type = "RateLimit",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = "anthropic",
            gen_ai.request.model = "claude",
            gen_ai.request.max_tokens = 100,
        );
        chat.set_attribute(
            "gen_ai.response.finish_reasons",
            opentelemetry::Value::Array(opentelemetry::Array::String(vec!["stop".into()])),
        );
        drop(chat);
        tracing::info!("between");
        drop(agent);
        tracing::info_span!("alone").in_scope(|| tracing::info!(name: "said", x = 1, "well"));
    }
    let exported = telemetry.finish();
    let forest = exported.forest();
    forest.assert_outline(
        "
        invoke_agent planner INTERNAL
          chat claude CLIENT ERROR RateLimit
        alone INTERNAL
        ",
    );
    let chat = forest.one("chat claude");
    assert_eq!(chat.description, "too many requests");
    assert_eq!(chat.attributes.int("gen_ai.request.max_tokens"), Some(100));
    assert_eq!(chat.attributes.list("gen_ai.response.finish_reasons"), Some(vec!["stop"]));
    assert_eq!(forest.one("alone").events.len(), 1);
    assert_eq!(forest.one("invoke_agent planner").events[0].name, "between");
}

#[test]
fn exported_metrics_are_received() {
    let telemetry = Telemetry::start();
    let usage = telemetry
        .meters()
        .meter("test")
        .u64_histogram("gen_ai.client.token.usage")
        .with_unit("{token}")
        .with_boundaries((0..14).map(|n| 4_f64.powi(n)).collect())
        .build();
    usage.record(
        12,
        &[
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", "anthropic"),
            KeyValue::new("gen_ai.token.type", "input"),
        ],
    );
    let exported = telemetry.finish();
    assert_eq!(exported.metrics.len(), 1);
    assert_eq!(exported.metric("gen_ai.client.token.usage").unit, "{token}");
    Checker::new(Version::V1_41).assert_holds(&exported);
}

#[test]
fn rejection_by_receiver_is_reported_by_flush() {
    let telemetry = Telemetry::start();
    telemetry.receiver().answer(Answer::Status(500));
    tracing::info_span!("lost").in_scope(|| {});
    // The batch is lost, and only the batch processor reports the loss.
    let refused = telemetry.flush();
    assert!(refused.is_err(), "{refused:?}");
    assert!(telemetry.receiver().requests() > 0);
    telemetry.receiver().answer(Answer::Accept);
    tracing::info_span!("kept").in_scope(|| {});
    telemetry.finish().forest().assert_outline("kept INTERNAL");
}
