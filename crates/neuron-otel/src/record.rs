//! Telling a span what became known after it began.

use neuron_types::TokenUsage;
use opentelemetry::trace::TraceContextExt;
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::SemanticConventions;
use crate::failure::Failure;

/// A span that is told things. Its attributes are declared where it is made.
pub(crate) struct Record<'a> {
    span: &'a Span,
    /// What is exported of it; without a span in it where no layer of OpenTelemetry listens.
    exported: Context,
}

impl<'a> Record<'a> {
    /// `None` if nobody would hear of it.
    pub(crate) fn of(span: &'a Span) -> Option<Self> {
        if span.is_disabled() {
            return None;
        }
        Some(Self { span, exported: span.context() })
    }

    /// Whether somebody reads the attributes: a log, or a trace that is sampled.
    pub(crate) fn is_read(&self) -> bool {
        !self.exported.has_active_span() || self.exported.span().is_recording()
    }

    pub(crate) fn text(&self, name: &'static str, value: &str) {
        self.span.record(name, value);
    }

    pub(crate) fn count(&self, name: &'static str, value: usize) {
        self.span.record(name, i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub(crate) fn integer(&self, name: &'static str, value: i64) {
        self.span.record(name, value);
    }

    pub(crate) fn number(&self, name: &'static str, value: f64) {
        self.span.record(name, value);
    }

    pub(crate) fn flag(&self, name: &'static str, value: bool) {
        self.span.record(name, value);
    }

    /// A list of texts. A log sees it as JSON: fields of tracing hold no lists.
    pub(crate) fn texts<'t>(&self, name: &'static str, values: impl IntoIterator<Item = &'t str>) {
        if self.exported.has_active_span() {
            let values = values.into_iter().map(|value| StringValue::from(value.to_owned()));
            let value = Value::Array(Array::String(values.collect()));
            self.exported.span().set_attribute(KeyValue::new(name, value));
        } else {
            let values: serde_json::Value = values.into_iter().collect();
            self.span.record(name, values.to_string());
        }
    }

    /// How many tokens were taken. The parts are those that the conventions have for the operation.
    pub(crate) fn usage(&self, usage: &TokenUsage, conventions: SemanticConventions, parts: Parts) {
        self.count("gen_ai.usage.input_tokens", usage.input_tokens);
        self.count("gen_ai.usage.output_tokens", usage.output_tokens);
        let cache = parts != Parts::None;
        if let Some(tokens) = usage.cache_read_tokens.filter(|_| cache) {
            self.count("gen_ai.usage.cache_read.input_tokens", tokens);
        }
        if let Some(tokens) = usage.cache_creation_tokens.filter(|_| cache) {
            self.count(
                match conventions {
                    SemanticConventions::Latest => "gen_ai.usage.cache_write.input_tokens",
                    _ => "gen_ai.usage.cache_creation.input_tokens",
                },
                tokens,
            );
        }
        if let Some(tokens) = usage.reasoning_tokens.filter(|_| parts == Parts::All) {
            self.count("gen_ai.usage.reasoning.output_tokens", tokens);
        }
    }

    pub(crate) fn failure(&self, failure: &Failure) {
        self.text("error.type", failure.kind);
        // In this order: the code alone takes the description away.
        self.text("otel.status_code", "ERROR");
        if let Some(description) = &failure.description {
            self.text("otel.status_description", description);
        }
    }
}

/// Which parts of the tokens are told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    None,
    Cache,
    All,
}
