//! A place in a distributed trace, as it goes from one process to another.

/// Where a request belongs in a distributed trace, as the W3C writes it.
///
/// It is text, and no tracing system is needed to hand it on. In
/// [`ToolContext::extensions`](crate::ToolContext::extensions) it tells a tool where its call belongs; what
/// speaks to another process sends it along.
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
    /// The trace, and the span in it: `00-<trace id>-<span id>-<flags>`.
    pub traceparent: String,
    /// What tracing systems keep beside it.
    pub tracestate: Option<String>,
    /// What the application hands on, as a W3C baggage header.
    pub baggage: Option<String>,
}

impl TraceContext {
    /// A place in a trace.
    pub fn new(traceparent: impl Into<String>) -> Self {
        Self { traceparent: traceparent.into(), ..Self::default() }
    }
}
