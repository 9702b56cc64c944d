//! The client, from inside a call.

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

/// The client that called, from inside the call: in the
/// [`extensions`](neuron_types::ToolContext::extensions) of a tool's context.
///
/// Clones are of the same call. What is sent after the call has ended is dropped.
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
    /// `None` if the client does not want to know how far the call has come.
    progress: Option<Progress>,
    inputs: Inputs,
    /// How long a client of an older version may take to answer a question.
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

    /// The client says nothing any more.
    pub(crate) fn input_ended(&self) -> &CancellationToken {
        &self.inner.session.closing().input_ended
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.inner.inputs
    }

    pub(crate) fn input_timeout(&self) -> Duration {
        self.inner.input_timeout
    }

    /// Where what is done now belongs in a trace: in the current span, or where the call does.
    pub(crate) fn current_trace_context(&self) -> Option<TraceContext> {
        self.inner.propagation.current().or_else(|| self.trace_context())
    }

    /// What a trace says of a question to the client.
    pub(crate) fn question_span(&self, method: &str) -> RequestSpan {
        let route = route_of(self.context(), &self.inner.session);
        RequestSpan::client(&Subject::method(method), self.version(), &route)
    }

    /// Who the client says it is; since 2026-07-28 it need not say.
    #[must_use]
    pub fn client_info(&self) -> Option<McpImplementation> {
        self.context().client_info().as_ref().map(wire::peer_info::implementation_from_sdk)
    }

    /// The version of the protocol that is spoken in this call.
    #[must_use]
    pub fn version(&self) -> McpVersion {
        self.inner.version
    }

    /// Whether the client lets servers use its model.
    #[must_use]
    pub fn supports_sampling(&self) -> bool {
        self.inner.capabilities.sampling.is_some()
    }

    /// Whether the client lets servers use its model with tools.
    #[must_use]
    pub fn supports_sampling_tools(&self) -> bool {
        let sampling = self.inner.capabilities.sampling.as_ref();
        sampling.is_some_and(|sampling| sampling.tools.is_some())
    }

    /// Whether the client can show forms to a person.
    #[must_use]
    pub fn supports_elicitation_form(&self) -> bool {
        // The specification of 2025-11-25: a client that names no way has forms.
        self.inner
            .capabilities
            .elicitation
            .as_ref()
            .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
    }

    /// Whether the client can open pages for a person.
    #[must_use]
    pub fn supports_elicitation_url(&self) -> bool {
        let elicitation = self.inner.capabilities.elicitation.as_ref();
        elicitation.is_some_and(|elicitation| elicitation.url.is_some())
    }

    /// Whether the client tells in which folders a server may work.
    #[must_use]
    pub fn supports_roots(&self) -> bool {
        self.inner.capabilities.roots.is_some()
    }

    /// Sends a log message, unless the client wants only graver ones. Does not wait for the client: when it
    /// is slow, the oldest messages are dropped.
    ///
    /// Since 2026-07-28 a client gets log messages only for calls with which it asked for them; before, those
    /// from [`LogLevel::Info`] on unless it said otherwise.
    ///
    /// Over HTTP before 2026-07-28 they come on the stream on which the client listens (`GET`), and so beside
    /// the call's result: before it or after. A client that does not listen gets none.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: impl Into<Value>) {
        if self.log_threshold().is_none_or(|threshold| level < threshold) {
            return;
        }
        let message = McpLogMessage { level, logger: logger.map(str::to_owned), data: data.into() };
        self.outbox().push(wire::log::notification(message));
    }

    /// Tells the client how far the call has come, if it asked to be told: of tools, resources and prompts
    /// alike. Does not wait for the client. `progress` must grow from one report to the next; what does not is
    /// dropped. `total` is what it grows to, if that is known.
    ///
    /// For a tool, [`progress_reporter`](neuron_types::ToolContext::progress_reporter) does the same.
    pub fn report_progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(told) = &self.inner.progress {
            told.report(self.outbox(), progress, total, message);
        }
    }

    /// Whether the client asked to be told how far the call has come.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.inner.progress.is_some()
    }

    /// Where the call belongs in a distributed trace, if the client said so. Questions to the client
    /// ([`ask`](Self::ask)) carry it on.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        wire::trace::from_meta(&self.context().meta)
    }

    /// The least grave level that the client wants; `None` if it wants no log messages.
    #[must_use]
    pub fn log_threshold(&self) -> Option<LogLevel> {
        match self.version().has_handshake() {
            true => Some(self.inner.session.log_level().unwrap_or(LogLevel::Info)),
            false => wire::log::level_of_request(&self.context().meta),
        }
    }

    /// Tells all connected clients of the server what changed.
    #[must_use]
    pub fn notifier(&self) -> McpNotifier {
        McpNotifier::new(self.inner.session.hub())
    }

    /// A value that is attached to the HTTP request with which the call came: the
    /// [`HttpIdentity`](crate::HttpIdentity) of who calls, and what was [added](crate::HttpIdentity::with) to
    /// it.
    #[must_use]
    pub fn extension<T: Any + Clone + Send + Sync>(&self) -> Option<&T> {
        self.http_request()?.extensions.get::<T>()
    }

    /// A header of the HTTP request with which the call came, if it came over HTTP and the value is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.http_request()?.headers.get(name)?.to_str().ok()
    }

    fn http_request(&self) -> Option<&::http::request::Parts> {
        self.context().extensions.get::<::http::request::Parts>()
    }
}

/// The version that a request is in. The specification of 2025-06-18: who names none speaks the one before.
pub(crate) fn version_of(context: &RequestContext<RoleServer>) -> McpVersion {
    let version = context.protocol_version();
    let version = version.and_then(|version| wire::peer_info::version_from_sdk(&version));
    version.unwrap_or(McpVersion::V2025_03_26)
}

/// How a request came.
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

/// In whose name a request comes, if it comes over HTTP and the server authenticates.
pub(crate) fn principal_of(context: &RequestContext<RoleServer>) -> Option<&str> {
    let request = context.extensions.get::<::http::request::Parts>()?;
    request.extensions.get::<HttpIdentity>().map(HttpIdentity::subject)
}

/// Shows no header and nothing of what was attached to the request.
impl fmt::Debug for McpPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpPeer")
            .field("client_info", &self.client_info())
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}
