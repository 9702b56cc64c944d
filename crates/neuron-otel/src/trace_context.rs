//! Handing a trace on, and taking one over: for protocols that carry it as texts.

use std::collections::HashMap;
use std::str::FromStr;

use neuron_types::TraceContext;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Context, global};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Where the current span stands in its trace, as the W3C writes it; `None` outside of any trace.
///
/// The baggage is that of the application's [global propagator](global::set_text_map_propagator), if it has one.
///
/// # Example
///
/// A client of MCP that hands the trace on to its server:
/// `McpClientBuilder::trace_context(neuron_otel::current_trace_context)`.
#[must_use]
pub fn current_trace_context() -> Option<TraceContext> {
    let mut context = Span::current().context();
    if !context.has_active_span() {
        context = Context::current();
    }
    let span = context.span();
    let place = span.span_context();
    if !place.is_valid() {
        return None;
    }
    let mut told = TraceContext::new(format!(
        "00-{}-{}-{:02x}",
        place.trace_id(),
        place.span_id(),
        (place.trace_flags() & TraceFlags::SAMPLED).to_u8(),
    ));
    told.tracestate = Some(place.trace_state().header()).filter(|header| !header.is_empty());
    let mut carrier = HashMap::new();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&context, &mut carrier));
    told.baggage = carrier.remove("baggage");
    Some(told)
}

/// Puts a span below the one that a caller named. A place that is not as the W3C writes it is ignored, as its
/// specification asks: the span begins a trace of its own.
///
/// To be called before the span is first entered; later it changes nothing. The baggage is not taken over.
pub fn set_trace_parent(span: &Span, parent: &TraceContext) {
    if let Some(place) = parse(parent) {
        // A span of which nobody hears has no parent.
        let _ = span.set_parent(Context::current().with_remote_span_context(place));
    }
}

/// Reads `00-<trace id>-<span id>-<flags>`; of later versions, what they have in common with this one.
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
    let place = SpanContext::new(
        TraceId::from_hex(trace_id).ok()?,
        SpanId::from_hex(span_id).ok()?,
        flags,
        true,
        state.and_then(Result::ok).unwrap_or_default(),
    );
    place.is_valid().then_some(place)
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
    fn a_place_in_a_trace_is_read() {
        let place = parsed(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert_eq!(place.trace_id().to_string(), TRACE);
        assert_eq!(place.span_id().to_string(), SPAN);
        assert!(place.is_sampled() && place.is_remote());
        assert!(!parsed(&format!("00-{TRACE}-{SPAN}-00")).unwrap().is_sampled());
        // Flags that this version does not know.
        assert!(parsed(&format!("00-{TRACE}-{SPAN}-ff")).unwrap().is_sampled());
        // A later version may have more behind it.
        assert!(parsed(&format!("01-{TRACE}-{SPAN}-01-more")).is_some());
    }

    #[test]
    fn what_the_state_says_is_kept_and_a_broken_one_is_not() {
        let mut context = TraceContext::new(format!("00-{TRACE}-{SPAN}-01"));
        context.tracestate = Some("vendor=1".into());
        assert_eq!(parse(&context).unwrap().trace_state().header(), "vendor=1");
        context.tracestate = Some("no state".into());
        assert_eq!(parse(&context).unwrap().trace_state().header(), "");
    }

    #[test]
    fn a_place_that_is_none_is_refused() {
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
