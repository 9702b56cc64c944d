//! Access to the client from inside a call.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ClientCapabilities;
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::http::authenticate::HttpIdentity;
use super::inputs::Inputs;
use super::notifier::McpNotifier;
use super::outbox::Outbox;
use super::progress::Progress;
use super::session::Session;
use crate::propagation::Propagation;
use crate::route::{Route, SESSION_ID};
use crate::span::{RequestSpan, Subject};
use crate::wire;
use crate::{LogLevel, McpImplementation, McpLogMessage, McpVersion, TraceContext};

/// The calling client. Tools find it in the [`extensions`](neuron_types::ToolContext::extensions) of their context.
///
/// Clones refer to the same call. Messages sent after the call has ended are dropped.
#[derive(Clone)]
pub struct McpPeer {
    inner: Arc<Inner>,
}

struct Inner {
    context: RequestContext<RoleServer>,
    capabilities: ClientCapabilities,
    version: McpVersion,
    session: Arc<Session>,
    outbox: Outbox,
    /// `None` if the client has not requested progress.
    progress: Option<Progress>,
    inputs: Inputs,
    /// Timeout for a response of a client of an older version.
    input_timeout: Duration,
    propagation: Propagation,
}

impl McpPeer {
    pub(crate) fn new(
        context: RequestContext<RoleServer>,
        session: Arc<Session>,
        inputs: Inputs,
        input_timeout: Duration,
        propagation: Propagation,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                capabilities: context.client_capabilities().unwrap_or_default(),
                version: version_of(&context),
                progress: context.meta.get_progress_token().map(Progress::new),
                context,
                session,
                outbox: Outbox::default(),
                inputs,
                input_timeout,
                propagation,
            }),
        }
    }

    pub(crate) fn context(&self) -> &RequestContext<RoleServer> {
        &self.inner.context
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.inner.outbox
    }

    /// Returns the token that is cancelled when the client's input has ended.
    pub(crate) fn input_ended(&self) -> &CancellationToken {
        &self.inner.session.closing().input_ended
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.inner.inputs
    }

    pub(crate) fn input_timeout(&self) -> Duration {
        self.inner.input_timeout
    }

    /// Returns the trace context of the current span, or else of the call.
    pub(crate) fn current_trace_context(&self) -> Option<TraceContext> {
        self.inner.propagation.current().or_else(|| self.trace_context())
    }

    /// Returns the span of a request to the client.
    pub(crate) fn question_span(&self, method: &str) -> RequestSpan {
        let route = route_of(self.context(), &self.inner.session);
        RequestSpan::client(&Subject::method(method), self.version(), &route)
    }

    /// Returns the client's name and version. Optional for clients since 2026-07-28.
    #[must_use]
    pub fn client_info(&self) -> Option<McpImplementation> {
        self.context().client_info().as_ref().map(wire::peer_info::implementation_from_sdk)
    }

    /// Returns the protocol version of this call.
    #[must_use]
    pub fn version(&self) -> McpVersion {
        self.inner.version
    }

    /// Returns `true` if the client supports sampling.
    #[must_use]
    pub fn supports_sampling(&self) -> bool {
        self.inner.capabilities.sampling.is_some()
    }

    /// Returns `true` if the client supports sampling with tools.
    #[must_use]
    pub fn supports_sampling_tools(&self) -> bool {
        let sampling = self.inner.capabilities.sampling.as_ref();
        sampling.is_some_and(|sampling| sampling.tools.is_some())
    }

    /// Returns `true` if the client can show forms.
    #[must_use]
    pub fn supports_elicitation_form(&self) -> bool {
        // A client that declares no mode supports forms (specification of 2025-11-25).
        self.inner
            .capabilities
            .elicitation
            .as_ref()
            .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
    }

    /// Returns `true` if the client can open pages.
    #[must_use]
    pub fn supports_elicitation_url(&self) -> bool {
        let elicitation = self.inner.capabilities.elicitation.as_ref();
        elicitation.is_some_and(|elicitation| elicitation.url.is_some())
    }

    /// Returns `true` if the client provides roots.
    #[must_use]
    pub fn supports_roots(&self) -> bool {
        self.inner.capabilities.roots.is_some()
    }

    /// Sends a log message, unless its level is below the client's threshold. Does not wait for the client. If the
    /// client is slow, the oldest messages are dropped.
    ///
    /// Since 2026-07-28 a client receives log messages only for calls that request them. Before, the default threshold
    /// is [`LogLevel::Info`].
    ///
    /// Over HTTP before 2026-07-28 log messages are sent on the client's listening stream (`GET`), and may arrive
    /// before or after the call's result. A client that does not listen receives none.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: impl Into<Value>) {
        if self.log_threshold().is_none_or(|threshold| level < threshold) {
            return;
        }
        let message = McpLogMessage { level, logger: logger.map(str::to_owned), data: data.into() };
        self.outbox().push(wire::log::notification(message));
    }

    /// Reports the progress of a call to a tool, resource or prompt, if the client has requested it. Does not wait for
    /// the client. `progress` must increase with each report. Other reports are dropped. `total` is the final value, if
    /// known.
    ///
    /// For a tool, [`progress_reporter`](neuron_types::ToolContext::progress_reporter) does the same.
    pub fn report_progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(told) = &self.inner.progress {
            told.report(self.outbox(), progress, total, message);
        }
    }

    /// Returns `true` if the client has requested progress.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.inner.progress.is_some()
    }

    /// Returns the trace context of the call, if the client sent one. Requests to the client ([`ask`](Self::ask)) carry
    /// it on.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        wire::trace::from_meta(&self.context().meta)
    }

    /// Returns the minimum level of log messages that the client wants. `None` if it wants no log messages.
    #[must_use]
    pub fn log_threshold(&self) -> Option<LogLevel> {
        match self.version().has_handshake() {
            true => Some(self.inner.session.log_level().unwrap_or(LogLevel::Info)),
            false => wire::log::level_of_request(&self.context().meta),
        }
    }

    /// Returns a handle to notify all connected clients of changes.
    #[must_use]
    pub fn notifier(&self) -> McpNotifier {
        McpNotifier::new(self.inner.session.hub())
    }

    /// Returns a value attached to the HTTP request of the call: the caller's [`HttpIdentity`](crate::HttpIdentity), or
    /// a value [added](crate::HttpIdentity::with) to it.
    #[must_use]
    pub fn extension<T: Any + Clone + Send + Sync>(&self) -> Option<&T> {
        self.http_request()?.extensions.get::<T>()
    }

    /// Returns a header of the HTTP request of the call. `None` if the call did not come over HTTP or the value is not
    /// text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.http_request()?.headers.get(name)?.to_str().ok()
    }

    fn http_request(&self) -> Option<&::http::request::Parts> {
        self.context().extensions.get::<::http::request::Parts>()
    }
}

/// Returns the protocol version of a request. Without a version header, the specification of 2025-06-18 assumes the
/// version before it.
pub(crate) fn version_of(context: &RequestContext<RoleServer>) -> McpVersion {
    let version = context.protocol_version();
    let version = version.and_then(|version| wire::peer_info::version_from_sdk(&version));
    version.unwrap_or(McpVersion::V2025_03_26)
}

/// Returns the network attributes of a request.
pub(crate) fn route_of(context: &RequestContext<RoleServer>, session: &Session) -> Route {
    let Some(request) = context.extensions.get::<::http::request::Parts>() else {
        return Route { transport: session.transport(), ..Route::default() };
    };
    let client = request.extensions.get::<SocketAddr>().copied();
    let route = Route { client, ..Route::http() };
    if let Some(id) = request.headers.get(SESSION_ID).and_then(|id| id.to_str().ok()) {
        route.session.set(id);
    }
    route
}

/// Returns the principal of a request, if it came over HTTP and the server authenticates.
pub(crate) fn principal_of(context: &RequestContext<RoleServer>) -> Option<&str> {
    let request = context.extensions.get::<::http::request::Parts>()?;
    request.extensions.get::<HttpIdentity>().map(HttpIdentity::subject)
}

/// Shows neither headers nor attached values.
impl fmt::Debug for McpPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpPeer")
            .field("client_info", &self.client_info())
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}
