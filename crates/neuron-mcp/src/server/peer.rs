//! [`McpPeer`], by which user code accesses the calling client.

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

/// Handle of the client that sent the current call. A tool finds the handle in the
/// [`extensions`](neuron_types::ToolContext::extensions) of its context.
///
/// The handle sends log messages, progress and requests to the client. It also returns the client's capabilities and
/// HTTP headers. Clones refer to the same call. Messages that are sent after the end of the call are dropped.
#[derive(Clone)]
pub struct McpPeer {
    inner: Arc<Inner>,
}

/// State that the clones of an [`McpPeer`] share.
struct Inner {
    /// The client's request, with the SDK's handle for sending messages.
    context: RequestContext<RoleServer>,
    /// The capabilities that the client has declared. Empty if it has declared none.
    capabilities: ClientCapabilities,
    /// Protocol version of the request.
    version: McpVersion,
    /// State of the connection or HTTP session.
    session: Arc<Session>,
    /// Queue of the call's notifications.
    outbox: Outbox,
    /// Sends the call's progress reports. `None` if the client has not requested progress reports.
    progress: Option<Progress>,
    /// Requests of this call to the client, and the client's responses.
    inputs: Inputs,
    /// Timeout for a client's response to a request, for protocol versions before 2026-07-28.
    input_timeout: Duration,
    /// The user's functions that convert between spans and trace contexts.
    propagation: Propagation,
}

impl McpPeer {
    /// Creates the peer of a call. `inputs` contains the responses that the client has already sent to requests of this
    /// call.
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

    /// Creates the peer of the next run of the same call. Its notifications are dropped, because the call is a task.
    /// `inputs` contains the responses that the client has already sent.
    pub(crate) fn again(&self, inputs: Inputs) -> Self {
        let Inner { context, session, input_timeout, propagation, .. } = &*self.inner;
        let (context, session) = (context.clone(), Arc::clone(session));
        let peer = Self::new(context, session, inputs, *input_timeout, propagation.clone());
        peer.outbox().close();
        peer
    }

    pub(crate) fn context(&self) -> &RequestContext<RoleServer> {
        &self.inner.context
    }

    pub(crate) fn outbox(&self) -> &Outbox {
        &self.inner.outbox
    }

    /// Returns the token that is cancelled when the client has closed its output. No response can arrive after that.
    pub(crate) fn input_ended(&self) -> &CancellationToken {
        &self.inner.session.closing().input_ended
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.inner.inputs
    }

    pub(crate) fn input_timeout(&self) -> Duration {
        self.inner.input_timeout
    }

    /// Returns the trace context of the current span, or if there is none, the trace context of the call. Returns
    /// `None` if neither exists.
    pub(crate) fn current_trace_context(&self) -> Option<TraceContext> {
        self.inner.propagation.current().or_else(|| self.trace_context())
    }

    /// Starts the span of a request to the client. `method` is the method of the request, such as `roots/list`.
    pub(crate) fn question_span(&self, method: &str) -> RequestSpan {
        let route = route_of(self.context(), &self.inner.session);
        RequestSpan::client(&Subject::method(method), self.version(), &route)
    }

    /// Returns the client's name and version. Returns `None` if the client did not send them. They are optional since
    /// protocol version 2026-07-28.
    #[must_use]
    pub fn client_info(&self) -> Option<McpImplementation> {
        self.context().client_info().as_ref().map(wire::peer_info::implementation_from_sdk)
    }

    /// Returns the protocol version of the call.
    #[must_use]
    pub fn version(&self) -> McpVersion {
        self.inner.version
    }

    /// Returns `true` if the client supports sampling, which is a request to the client's model. See
    /// [`sample`](Self::sample).
    #[must_use]
    pub fn supports_sampling(&self) -> bool {
        self.inner.capabilities.sampling.is_some()
    }

    /// Returns `true` if the client supports sampling requests with tools.
    #[must_use]
    pub fn supports_sampling_tools(&self) -> bool {
        let sampling = self.inner.capabilities.sampling.as_ref();
        sampling.is_some_and(|sampling| sampling.tools.is_some())
    }

    /// Returns `true` if the client can show a form to the user. See [`elicit`](Self::elicit).
    #[must_use]
    pub fn supports_elicitation_form(&self) -> bool {
        // A client that declares no mode supports forms (specification of 2025-11-25).
        self.inner
            .capabilities
            .elicitation
            .as_ref()
            .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
    }

    /// Returns `true` if the client can ask the user to open a page. See [`elicit`](Self::elicit).
    #[must_use]
    pub fn supports_elicitation_url(&self) -> bool {
        let elicitation = self.inner.capabilities.elicitation.as_ref();
        elicitation.is_some_and(|elicitation| elicitation.url.is_some())
    }

    /// Returns `true` if the client provides roots, the folders that the server may use. See [`roots`](Self::roots).
    #[must_use]
    pub fn supports_roots(&self) -> bool {
        self.inner.capabilities.roots.is_some()
    }

    /// Returns `true` if the client accepts a task instead of the result of a tool call. See
    /// [`answer_with_task`](Self::answer_with_task).
    #[must_use]
    pub fn supports_tasks(&self) -> bool {
        !self.version().has_handshake() && self.inner.capabilities.supports_tasks()
    }

    /// Lets the client receive a task of the server's [`TaskSource`](crate::TaskSource) instead of the result of the
    /// tool. Returns `false`, and does nothing, if the client does not [support tasks](Self::supports_tasks). The tool
    /// must then wait for the end of its work.
    ///
    /// The task must exist before the tool returns. If the tool returns an error, the client receives the error.
    ///
    /// # Example: a tool that starts a durable run
    ///
    /// ```
    /// use neuron_mcp::McpPeer;
    /// use neuron_types::{ToolContext, ToolError};
    /// # async fn submit(_: &str) -> Result<String, ToolError> { Ok("random".into()) }
    /// # async fn wait_for(_: &str) -> Result<String, ToolError> { Ok("done".into()) }
    ///
    /// async fn research(topic: String, ctx: &ToolContext) -> Result<String, ToolError> {
    ///     let run = submit(&topic).await?;
    ///     match ctx.extensions.get::<McpPeer>() {
    ///         Some(peer) if peer.answer_with_task(&run) => Ok("started".into()),
    ///         _ => wait_for(&run).await,
    ///     }
    /// }
    /// ```
    pub fn answer_with_task(&self, id: &str) -> bool {
        let is_supported = self.supports_tasks();
        if is_supported {
            self.inputs().lock().task = Some(id.to_owned());
        }
        is_supported
    }

    /// Queues a log message for the client without waiting. The message is dropped if its level is below the client's
    /// [threshold](Self::log_threshold).
    ///
    /// If the client is slow, the oldest queued notifications of the call are dropped.
    ///
    /// Since protocol version 2026-07-28, a client receives log messages only for calls in which it requests them. In
    /// earlier versions, it receives log messages from [`LogLevel::Info`] on by default.
    ///
    /// Over HTTP before protocol version 2026-07-28, log messages are sent on the client's listening stream (`GET`).
    /// They may then arrive before or after the call's result. A client without a listening stream receives none.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: impl Into<Value>) {
        if self.log_threshold().is_none_or(|threshold| level < threshold) {
            return;
        }
        let message = McpLogMessage { level, logger: logger.map(str::to_owned), data: data.into() };
        self.outbox().push(wire::log::notification(message));
    }

    /// Queues a progress report of the call for the client without waiting. Does nothing if the client has not
    /// requested progress.
    ///
    /// `progress` must be greater than in the previous report. Otherwise the report is dropped. `total` is the value of
    /// `progress` at the end, if known.
    ///
    /// In a tool, [`progress_reporter`](neuron_types::ToolContext::progress_reporter) does the same.
    pub fn report_progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(told) = &self.inner.progress {
            told.report(self.outbox(), progress, total, message);
        }
    }

    /// Returns `true` if the client has requested progress reports for the call.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.inner.progress.is_some()
    }

    /// Returns the trace context that the client sent with the call. Returns `None` if the client sent none.
    ///
    /// Requests to the client ([`ask`](Self::ask)) carry this trace context by default.
    #[must_use]
    pub fn trace_context(&self) -> Option<TraceContext> {
        wire::trace::from_meta(&self.context().meta)
    }

    /// Returns the minimum level of log messages that the client wants. Returns `None` if the client wants no log
    /// messages.
    #[must_use]
    pub fn log_threshold(&self) -> Option<LogLevel> {
        // Before version 2026-07-28, `logging/setLevel` sets the level of the session. In later versions each request
        // contains its level.
        match self.version().has_handshake() {
            true => Some(self.inner.session.log_level().unwrap_or(LogLevel::Info)),
            false => wire::log::level_of_request(&self.context().meta),
        }
    }

    /// Returns a handle that notifies all connected clients of changes and can replace the tools.
    #[must_use]
    pub fn notifier(&self) -> McpNotifier {
        McpNotifier::new(self.inner.session.hub())
    }

    /// Returns a value of this type from the extensions of the call's HTTP request. Returns `None` if there is no such
    /// value, or if the call did not arrive over HTTP.
    ///
    /// The extensions contain the caller's [`HttpIdentity`](crate::HttpIdentity) and the values that were added by
    /// [`HttpIdentity::with`](crate::HttpIdentity::with).
    #[must_use]
    pub fn extension<T: Any + Clone + Send + Sync>(&self) -> Option<&T> {
        self.http_request()?.extensions.get::<T>()
    }

    /// Returns a header of the call's HTTP request. Returns `None` if the header is missing or not text, or if the call
    /// did not arrive over HTTP.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.http_request()?.headers.get(name)?.to_str().ok()
    }

    /// Returns the HTTP request of the call. Returns `None` if the call did not arrive over HTTP.
    fn http_request(&self) -> Option<&::http::request::Parts> {
        self.context().extensions.get::<::http::request::Parts>()
    }
}

/// Returns the protocol version of a request. A request without a version counts as version 2025-03-26.
///
/// The specification of 2025-06-18 requires this default for HTTP requests without a version header.
pub(crate) fn version_of(context: &RequestContext<RoleServer>) -> McpVersion {
    let version = context.protocol_version();
    let version = version.and_then(|version| wire::peer_info::version_from_sdk(&version));
    version.unwrap_or(McpVersion::V2025_03_26)
}

/// Returns the network attributes for the span of a request, such as the client's address.
pub(crate) fn route_of(context: &RequestContext<RoleServer>, session: &Session) -> Route {
    let Some(request) = context.extensions.get::<::http::request::Parts>() else {
        return Route { transport: session.transport(), ..Route::default() };
    };
    // A service in another HTTP server has the address only if that server adds it to the extensions.
    let client = request.extensions.get::<SocketAddr>().copied();
    let route = Route { client, ..Route::http() };
    if let Some(id) = request.headers.get(SESSION_ID).and_then(|id| id.to_str().ok()) {
        route.session.set(id);
    }
    route
}

/// Returns the subject of the authenticated caller. Returns `None` if the request did not arrive over HTTP, or if the
/// server does not authenticate.
pub(crate) fn principal_of(context: &RequestContext<RoleServer>) -> Option<&str> {
    let request = context.extensions.get::<::http::request::Parts>()?;
    request.extensions.get::<HttpIdentity>().map(HttpIdentity::subject)
}

/// Omits headers and extensions, which may be secret.
impl fmt::Debug for McpPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpPeer")
            .field("client_info", &self.client_info())
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}
