//! Conversion between spans and W3C trace contexts, for protocols that send a trace context as text.

use std::collections::HashMap;
use std::str::FromStr;

use neuron_types::TraceContext;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Context, global};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Returns the W3C trace context of the current span. Returns `None` outside of a trace.
///
/// The baggage comes from the application's [global propagator](global::set_text_map_propagator). Without a propagator
/// there is no baggage.
///
/// # Example
///
/// To propagate the trace from an MCP client to its server, call
/// `McpClientBuilder::trace_context(neuron_otel::current_trace_context)`.
#[must_use]
pub fn current_trace_context() -> Option<TraceContext> {
    let mut context = Span::current().context();
    if !context.has_active_span() {
        context = Context::current();
    }
    let span = context.span();
    let span_context = span.span_context();
    if !span_context.is_valid() {
        return None;
    }
    let mut trace_context = TraceContext::new(format!(
        "00-{}-{}-{:02x}",
        span_context.trace_id(),
        span_context.span_id(),
        (span_context.trace_flags() & TraceFlags::SAMPLED).to_u8(),
    ));
    trace_context.tracestate =
        Some(span_context.trace_state().header()).filter(|header| !header.is_empty());
    let mut carrier = HashMap::new();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut carrier));
    trace_context.baggage = carrier.remove("baggage");
    Some(trace_context)
}

/// Sets the remote parent of a span. If the trace context is invalid, the span begins a new trace, as the W3C
/// specification requires.
///
/// Call this function before the span is first entered. A later call has no effect. The baggage in `parent` is ignored.
pub fn set_trace_parent(span: &Span, parent: &TraceContext) {
    if let Some(span_context) = parse(parent) {
        // A disabled span cannot have a parent, so the error is ignored.
        let _ = span.set_parent(Context::current().with_remote_span_context(span_context));
    }
}

/// Parses the text `00-<trace id>-<span id>-<flags>`. Ignores the additional fields of later versions. Returns `None`
/// if the text is invalid.
fn parse(context: &TraceContext) -> Option<SpanContext> {
    let mut parts = context.traceparent.trim().split('-');
    let (version, trace_id) = (parts.next()?, parts.next()?);
    let (span_id, flags) = (parts.next()?, parts.next()?);
    let lengths = [(version, 2), (trace_id, 32), (span_id, 16), (flags, 2)];
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if lengths.into_iter().any(|(text, length)| text.len() != length || !is_hex(text))
        || version == "ff"
        || (version == "00" && parts.next().is_some())
    {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
    let state = context.tracestate.as_deref().map(TraceState::from_str);
    let span_context = SpanContext::new(
        TraceId::from_hex(trace_id).ok()?,
        SpanId::from_hex(span_id).ok()?,
        flags,
        true,
        state.and_then(Result::ok).unwrap_or_default(),
    );
    span_context.is_valid().then_some(span_context)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parsed(traceparent: &str) -> Option<SpanContext> {
        parse(&TraceContext::new(traceparent))
    }

    #[test]
    fn traceparent_is_parsed() {
        let span_context = parsed(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!(span_context.trace_id().to_string(), TRACE);
        assert_eq!(span_context.span_id().to_string(), SPAN);
        assert!(span_context.is_sampled() && span_context.is_remote());
        assert!(!parsed(&format!("00-{TRACE}-{SPAN}-00")).unwrap().is_sampled());
        // Unknown flags are ignored.
        assert!(parsed(&format!("00-{TRACE}-{SPAN}-ff")).unwrap().is_sampled());
        // Later versions may append fields.
        assert!(parsed(&format!("01-{TRACE}-{SPAN}-01-more")).is_some());
    }

    #[test]
    fn valid_tracestate_is_kept_and_invalid_dropped() {
        let mut context = TraceContext::new(format!("00-{TRACE}-{SPAN}-01"));
        context.tracestate = Some("vendor=1".into());
        assert_eq!(parse(&context).unwrap().trace_state().header(), "vendor=1");
        context.tracestate = Some("no state".into());
        assert_eq!(parse(&context).unwrap().trace_state().header(), "");
    }

    #[test]
    fn invalid_traceparent_is_rejected() {
        let zeros = "0".repeat(32);
        for broken in [
            String::new(),
            "00".into(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}é-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", &TRACE[1..]),
            format!("0x-{TRACE}-{SPAN}-01"),
        ] {
            assert!(parsed(&broken).is_none(), "{broken}");
        }
    }
}
