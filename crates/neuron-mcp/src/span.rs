//! Spans of requests, following OpenTelemetry's conventions for MCP (version 1.41).
//!
//! Spans contain no arguments and no results. They also contain no error messages of the peer, because such a message
//! may quote arguments or results.

use std::borrow::Cow;
use std::sync::OnceLock;

use tracing::Span;
use tracing::field::Empty;
use tracing::span::Id;

use crate::McpVersion;
use crate::route::Route;

/// Maximum length in bytes of a name or URI in a span. Longer texts of the peer are truncated.
const LONGEST: usize = 512;

/// The method of a request, and the tool, prompt or resource that the request concerns. The request's span shows them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Subject<'a> {
    /// Method of the protocol, for example `tools/call`.
    pub(crate) method: &'a str,
    /// Name of the tool. `None` if the request concerns no tool.
    pub(crate) tool: Option<&'a str>,
    /// Name of the prompt. `None` if the request concerns no prompt.
    pub(crate) prompt: Option<&'a str>,
    /// URI of the resource. `None` if the request concerns no resource.
    pub(crate) resource: Option<&'a str>,
    /// `true` if the tool or prompt exists. Otherwise its name is omitted from the span's name, because a client could
    /// send any number of unknown names.
    pub(crate) is_known: bool,
}

impl<'a> Subject<'a> {
    /// Creates the subject of a span, for a request that concerns no tool, prompt or resource.
    pub(crate) fn method(method: &'a str) -> Self {
        Self { method, ..Self::default() }
    }

    /// Creates the subject of a span, which is the method of a request and the tool. Long names are truncated.
    pub(crate) fn tool(method: &'a str, tool: &'a str) -> Self {
        Self { tool: Some(shortened(tool)), is_known: true, ..Self::method(method) }
    }

    /// Creates the subject of a span, which is the method of a request and the prompt. Long names are truncated.
    pub(crate) fn prompt(method: &'a str, prompt: &'a str) -> Self {
        Self { prompt: Some(shortened(prompt)), is_known: true, ..Self::method(method) }
    }

    /// Creates the subject of a span, which is the method of a request and the resource. Long URIs are truncated.
    pub(crate) fn resource(method: &'a str, uri: &'a str) -> Self {
        Self { resource: Some(shortened(uri)), ..Self::method(method) }
    }

    fn is_tool_call(&self) -> bool {
        self.method == "tools/call"
    }

    /// Returns the span's name, for example `tools/call echo`. Resource URIs are left out, because there may be many.
    fn span_name(&self) -> Cow<'a, str> {
        match self.tool.or(self.prompt).filter(|_| self.is_known) {
            Some(target) => format!("{} {target}", self.method).into(),
            None => self.method.into(),
        }
    }
}

/// Returns the first [`LONGEST`] bytes of a text, or fewer if a character would be split.
fn shortened(text: &str) -> &str {
    let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end));
    if text.len() <= LONGEST { text } else { text.get(..end.unwrap_or(0)).unwrap_or_default() }
}

/// Returns a prefix of a session id for logs and spans. The prefix has up to eight characters, but at most half of the
/// id. The complete id is a secret, because it gives access to an unauthenticated session.
pub(crate) fn session_prefix(id: &str) -> &str {
    let end =
        id.char_indices().map(|(place, _)| place).nth(id.chars().count().div_euclid(2).min(8));
    end.and_then(|end| id.get(..end)).unwrap_or_default()
}

/// The failure of a request, in the form that the attributes of a span need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A JSON-RPC error response with this code.
    Code(i32),
    /// Any other failure, with the value of `error.type`.
    Kind(&'static str),
}

impl Failure {
    /// The tool was called and returned an error.
    pub(crate) const TOOL: Self = Self::Kind("tool_error");
    pub(crate) const CANCELLED: Self = Self::Kind("cancelled");
    pub(crate) const TIMEOUT: Self = Self::Kind("timeout");
    pub(crate) const TRANSPORT: Self = Self::Kind("transport");
    /// The fallback value of `error.type` in OpenTelemetry's conventions.
    pub(crate) const OTHER: Self = Self::Kind("_OTHER");

    /// Returns the value of the attribute `error.type`.
    fn error_type(self) -> Cow<'static, str> {
        match self {
            Self::Code(code) => code.to_string().into(),
            Self::Kind(kind) => kind.into(),
        }
    }

    /// Returns a general description of the failure. The peer's error message is not used, because it may quote
    /// arguments and results.
    fn description(self) -> &'static str {
        match self {
            Self::Code(-32700) => "parse error",
            Self::Code(-32600) => "invalid request",
            Self::Code(-32601) => "method not found",
            Self::Code(-32602) => "invalid params",
            Self::Code(-32603) => "internal error",
            Self::Code(-32002) => "resource not found",
            Self::Code(-32099..=-32000) => "server error",
            Self::Code(_) => "error",
            Self::TOOL => "the tool failed",
            Self::CANCELLED => "the request was cancelled",
            Self::TIMEOUT => "there was no answer in time",
            Self::TRANSPORT => "the connection failed",
            Self::Kind(_) => "the request failed",
        }
    }
}

/// Creates the span of a request. Records the attributes that are known at the start of the request. If `parent` is
/// omitted, the span is a child of the current span.
macro_rules! request_span {
    ($(parent: $parent:expr,)? $name:literal, $kind:literal, $subject:expr, $version:expr, $route:expr) => {{
        let (subject, version, route): (&Subject<'_>, Option<McpVersion>, &Route) =
            ($subject, $version, $route);
        // A request of a server to its client is sent against the direction of the connection. The address attributes
        // of the conventions do not apply to it.
        let server = route.server.as_ref().filter(|_| $kind == "client");
        let client = route.client.filter(|_| $kind == "server");
        tracing::info_span!(
            target: "neuron_mcp",
            $(parent: $parent,)?
            $name,
            otel.name = &*subject.span_name(),
            otel.kind = $kind,
            otel.status_code = Empty,
            otel.status_description = Empty,
            mcp.method.name = subject.method,
            mcp.protocol.version = version.map(McpVersion::as_str),
            mcp.session.id = route.session.get().map(|id| session_prefix(id)),
            mcp.resource.uri = subject.resource,
            gen_ai.tool.name = subject.tool,
            gen_ai.prompt.name = subject.prompt,
            gen_ai.operation.name = subject.is_tool_call().then_some("execute_tool"),
            jsonrpc.request.id = Empty,
            network.transport = route.transport,
            network.protocol.name = route.protocol,
            server.address = server.map(|(host, _)| &**host),
            server.port = server.map(|(_, port)| i64::from(*port)),
            client.address = client.map(|client| client.ip().to_string()).as_deref(),
            client.port = client.map(|client| i64::from(client.port())),
            error.type = Empty,
            rpc.response.status_code = Empty,
        )
    }};
}

/// The span of a request. Dropping the value before [`end`](Self::end) is called records a cancellation.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    span: Span,
    /// The values to record in a tool call's span of the crate `neuron-otel`, at the end of the request. `None` if this
    /// module created the span.
    facts: Option<Facts>,
    /// The JSON-RPC id, once the request is sent.
    id: OnceLock<String>,
    is_ended: bool,
}

/// Values from which the attributes in the span of a tool call are recorded at the end of the request.
#[derive(Debug)]
struct Facts {
    version: McpVersion,
    route: Route,
}

impl RequestSpan {
    /// Starts the span of an outgoing request.
    pub(crate) fn client(subject: &Subject<'_>, version: McpVersion, route: &Route) -> Self {
        Self::own(request_span!("mcp.client.request", "client", subject, Some(version), route))
    }

    /// Starts the span of an incoming request as a child of `parent`. If `parent` is `None`, the span starts a new
    /// trace. The current span is not the parent, because it belongs to the whole connection.
    pub(crate) fn server(
        subject: &Subject<'_>,
        version: Option<McpVersion>,
        route: &Route,
        parent: Option<Id>,
    ) -> Self {
        Self::own(request_span!(
            parent: parent,
            "mcp.server.request",
            "server",
            subject,
            version,
            route
        ))
    }

    /// Wraps a span that this module created.
    fn own(span: Span) -> Self {
        Self { span, facts: None, id: OnceLock::new(), is_ended: false }
    }

    /// Uses the current span for a request if it is a tool call's span of the crate `neuron-otel`. Otherwise returns
    /// `None`. OpenTelemetry's conventions require a single span for a tool call.
    ///
    /// The request does not change the name, end and status of that span.
    pub(crate) fn of_tool_call(version: McpVersion, route: &Route) -> Option<Self> {
        let span = Span::current();
        let metadata = span.metadata()?;
        if metadata.name() != "execute_tool" || metadata.target() != "neuron_otel" {
            return None;
        }
        let facts = Some(Facts { version, route: route.clone() });
        Some(Self { span, facts, id: OnceLock::new(), is_ended: false })
    }

    /// Returns the span that the caller must enter for the request. Returns a disabled span if the request uses a tool
    /// call's span, which has already been entered.
    pub(crate) fn to_enter(&self) -> Span {
        match self.facts {
            Some(_) => Span::none(),
            None => self.span.clone(),
        }
    }

    /// Returns the span of the request.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Records the JSON-RPC id of the request. If the request is sent several times, the first id is kept.
    pub(crate) fn has_id(&self, id: impl ToString) {
        if self.id.get().is_none() {
            let id = self.id.get_or_init(|| shortened(&id.to_string()).to_owned());
            if self.facts.is_none() {
                self.span.record("jsonrpc.request.id", id.as_str());
            }
        }
    }

    /// Ends the span. Records `failure` unless it is `None`, which means that the request succeeded.
    pub(crate) fn end(mut self, failure: Option<Failure>) {
        self.finish(failure);
    }

    /// Ends the span of a failed attempt, after which the request may be sent again with a new span.
    ///
    /// Changes nothing in a tool call's span of the crate `neuron-otel`, because only the last attempt records its
    /// attributes there.
    pub(crate) fn forgo(mut self) {
        self.is_ended |= self.facts.is_some();
        self.finish(Some(Failure::TRANSPORT));
    }

    fn finish(&mut self, failure: Option<Failure>) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        if let Some(facts) = self.facts.take() {
            self.tell(&facts);
        } else if let Some(failure) = failure {
            self.span.record("error.type", &*failure.error_type());
            self.span.record("otel.status_code", "ERROR");
            self.span.record("otel.status_description", failure.description());
        }
        if let Some(failure @ Failure::Code(_)) = failure {
            self.span.record("rpc.response.status_code", &*failure.error_type());
        }
    }

    /// Records the attributes of the request in the span of a tool call. Must be called only once, because a second
    /// record would export each attribute twice.
    fn tell(&self, Facts { version, route }: &Facts) {
        let (span, server) = (&self.span, route.server.as_ref());
        span.record("mcp.method.name", "tools/call");
        span.record("mcp.protocol.version", version.as_str());
        span.record("mcp.session.id", route.session.get().map(session_prefix));
        span.record("jsonrpc.request.id", self.id.get().map(String::as_str));
        span.record("network.transport", route.transport);
        span.record("network.protocol.name", route.protocol);
        span.record("server.address", server.map(|(host, _)| &**host));
        span.record("server.port", server.map(|(_, port)| i64::from(*port)));
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        self.finish(Some(Failure::CANCELLED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_prefix_is_at_most_half_of_the_id() {
        for (id, prefix) in [
            ("338dda16-037d-4bd9-b371-48d3daa427af", "338dda16"),
            ("0123456789abcde", "0123456"),
            ("äöü", "ä"),
            ("s", ""),
            ("", ""),
        ] {
            assert_eq!(session_prefix(id), prefix);
        }
    }
}
