//! The W3C trace context in the metadata of requests. The fields of `_meta` are `traceparent`, `tracestate` and
//! `baggage` (MCP specification 2026-07-28).

use rmcp::model::MetaObject;

use crate::TraceContext;

/// Returns the trace context in the metadata of a request. Returns `None` if there is no `traceparent`.
pub(crate) fn from_meta(meta: &MetaObject) -> Option<TraceContext> {
    let mut trace = TraceContext::new(meta.get_traceparent()?);
    trace.tracestate = meta.get_tracestate().map(str::to_owned);
    trace.baggage = meta.get_baggage().map(str::to_owned);
    Some(trace)
}

/// Writes a trace context into the metadata of a request.
pub(crate) fn to_meta(trace: &TraceContext, meta: &mut MetaObject) {
    meta.set_traceparent(&trace.traceparent);
    if let Some(tracestate) = &trace.tracestate {
        meta.set_tracestate(tracestate);
    }
    if let Some(baggage) = &trace.baggage {
        meta.set_baggage(baggage);
    }
}
