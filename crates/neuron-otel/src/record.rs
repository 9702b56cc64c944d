//! Recording of attributes on a span that has begun.

use neuron_types::TokenUsage;
use opentelemetry::trace::TraceContextExt;
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::SemanticConventions;
use crate::failure::Failure;

/// Records attributes on a span. Each attribute must be declared where the span is created, because `tracing` ignores
/// other attributes.
pub(crate) struct Record<'a> {
    span: &'a Span,
    /// The OpenTelemetry context of the span. It contains no OpenTelemetry span if the application has no OpenTelemetry
    /// layer.
    exported: Context,
}

impl<'a> Record<'a> {
    /// Creates the recorder of a span. Returns `None` if the span is disabled.
    pub(crate) fn of(span: &'a Span) -> Option<Self> {
        if span.is_disabled() {
            return None;
        }
        Some(Self { span, exported: span.context() })
    }

    /// Returns `true` if the attributes are exported or may be logged. They are exported if the trace is sampled. They
    /// may be logged if there is no OpenTelemetry layer.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.exported.has_active_span() || self.exported.span().is_recording()
    }

    /// Changes the name of the span.
    pub(crate) fn name(&self, name: String) {
        self.span.record("otel.name", name.as_str());
        // The layer of `tracing_opentelemetry` ignores a name that is recorded after the span has begun.
        self.exported.span().update_name(name);
    }

    pub(crate) fn text(&self, name: &'static str, value: &str) {
        self.span.record(name, value);
    }

    pub(crate) fn count(&self, name: &'static str, value: usize) {
        // Integer attributes of OpenTelemetry are signed.
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

    /// Records an attribute that is a list of texts. Without an OpenTelemetry layer the value is a JSON text, because a
    /// field of `tracing` cannot be a list.
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

    /// Records token counts, and the cost if it is complete. `parts` selects the details, because the conventions define
    /// different details for each operation.
    pub(crate) fn usage(
        &self,
        usage: &TokenUsage,
        conventions: SemanticConventions,
        parts: UsageDetails,
    ) {
        self.count("gen_ai.usage.input_tokens", usage.input_tokens);
        self.count("gen_ai.usage.output_tokens", usage.output_tokens);
        let cache = parts != UsageDetails::None;
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
        if let Some(tokens) = usage.reasoning_tokens.filter(|_| parts == UsageDetails::All) {
            self.count("gen_ai.usage.reasoning.output_tokens", tokens);
        }
        if let Some(dollars) = dollars(usage) {
            self.number("neuron.usage.cost", dollars);
        }
    }

    /// Records the error type and the status of a failed operation.
    pub(crate) fn failure(&self, failure: &Failure) {
        self.text("error.type", failure.kind);
        // The code must be set first, because setting it clears the description.
        self.text("otel.status_code", "ERROR");
        if let Some(description) = &failure.description {
            self.text("otel.status_description", description);
        }
    }
}

/// Returns the cost of a usage in US dollars. Returns `None` if it is unknown or incomplete.
pub(crate) fn dollars(usage: &TokenUsage) -> Option<f64> {
    usage.cost.filter(|cost| cost.is_complete).map(|cost| cost.amount.as_f64())
}

/// The details of token counts that an operation records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageDetails {
    /// Only the numbers of input and output tokens.
    None,
    /// The numbers of input, output and cached tokens.
    Cache,
    /// The numbers of input, output, cached and reasoning tokens.
    All,
}
