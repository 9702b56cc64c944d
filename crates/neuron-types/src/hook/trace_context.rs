//! The W3C trace context of a request.

/// A position in a distributed trace, in the W3C format.
///
/// The trace context of a tool call is stored in [`ToolContext::extensions`](crate::ToolContext::extensions). Code that
/// sends a request to another process adds it to the request. The fields are plain text, so this type does not depend
/// on a tracing library.
///
/// # Example
///
/// ```
/// use neuron_types::{ToolContext, TraceContext};
///
/// let mut ctx = ToolContext::default();
/// ctx.extensions
///     .insert(TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace and the parent span, as `00-<trace id>-<span id>-<flags>`.
    pub traceparent: String,
    /// Vendor-specific state of tracing systems, in the W3C `tracestate` format. `None` if there is no state.
    pub tracestate: Option<String>,
    /// Key-value pairs of the application, in the W3C `baggage` format. `None` if there are no pairs.
    pub baggage: Option<String>,
}

impl TraceContext {
    /// Creates a trace context without state and baggage.
    pub fn new(traceparent: impl Into<String>) -> Self {
        Self { traceparent: traceparent.into(), ..Self::default() }
    }
}
