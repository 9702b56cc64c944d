//! W3C trace context in the metadata of requests.

use rmcp::model::MetaObject;

/// Where a request belongs in a distributed trace, as the W3C writes it.
///
/// A client: put one into [`ToolContext::extensions`](neuron_types::ToolContext::extensions). What is asked with
/// this context carries it in its `_meta`: [`call_tool_in`](crate::McpClient::call_tool_in),
/// [`read_resource_in`](crate::McpClient::read_resource_in), [`get_prompt_in`](crate::McpClient::get_prompt_in)
/// and the tools of [`McpToolBridge`](crate::McpToolBridge); other requests carry none. What a server asks back
/// comes with that of the server: [`SamplingRequest::trace_context`](crate::SamplingRequest::trace_context),
/// [`ElicitationHandler::elicit_traced`](crate::ElicitationHandler::elicit_traced).
///
/// A server: a tool finds the client's in its context's extensions, resources and prompts find it by
/// [`McpPeer::trace_context`](crate::McpPeer::trace_context). Questions to the client carry it on.
///
/// (MCP specification 2026-07-28, basic: `traceparent`, `tracestate` and `baggage` in `_meta`.)
///
/// # Example
///
/// ```
/// use neuron_mcp::TraceContext;
/// use neuron_types::ToolContext;
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

    /// The trace context in a request's metadata.
    pub(crate) fn from_meta(meta: &MetaObject) -> Option<Self> {
        Some(Self {
            traceparent: meta.get_traceparent()?.to_owned(),
            tracestate: meta.get_tracestate().map(str::to_owned),
            baggage: meta.get_baggage().map(str::to_owned),
        })
    }

    /// Puts it into a request's metadata.
    pub(crate) fn to_meta(&self, meta: &mut MetaObject) {
        meta.set_traceparent(&self.traceparent);
        if let Some(tracestate) = &self.tracestate {
            meta.set_tracestate(tracestate);
        }
        if let Some(baggage) = &self.baggage {
            meta.set_baggage(baggage);
        }
    }
}
