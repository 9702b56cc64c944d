//! Sending of requests, with timeouts, cancellation and input that the server requires.
//!
//! Since MCP 2026-07-28, a server can respond that it requires input, such as an answer of the user. The client then
//! sends the request again with the input. Each sending of the request is called a round.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use neuron_types::{McpError, ToolContext};
use rmcp::model::{
    CancelTaskParams, CancelledNotification, CancelledNotificationParam, ClientRequest,
    GetExtensions, InputRequests, InputRequiredResult, InputResponses, ListToolsRequest,
    PaginatedRequestParams, RequestId, RequestMetaObject, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::clock::Clock;
use super::connection::{Connection, with_exit_report};
use super::settings::{MAX_INPUT_ROUNDS, Shared};
use super::watch::{Progress, Watch};
use crate::span::RequestSpan;
use crate::wire;
use crate::{McpCancelled, McpLimitExceeded, McpTimeout, TraceContext};

/// The progress receiver, the cancellation token and the trace context of a request.
#[derive(Clone, Default)]
pub(super) struct Scope {
    pub(super) progress: Arc<Progress>,
    pub(super) cancellation: Option<CancellationToken>,
    pub(super) trace: Option<TraceContext>,
    /// `true` if a tool call of the agent consists only of this request, as for tools of a server. `false` for any
    /// other request.
    pub(super) is_tool: bool,
}

impl Scope {
    /// Creates the scope of a request that is only a part of the work of a tool call, from the context of the call.
    /// [`is_tool`](Self::is_tool) is `false`.
    pub(super) fn of(ctx: &ToolContext) -> Self {
        Self {
            progress: Arc::new(Progress::new(ctx.progress_reporter.clone())),
            cancellation: Some(ctx.cancellation_token.clone()),
            trace: ctx.extensions.get::<TraceContext>().cloned(),
            is_tool: false,
        }
    }

    /// Creates the scope of a request that is the whole work of a tool call, from the context of the call.
    /// [`is_tool`](Self::is_tool) is `true`.
    pub(super) fn of_tool(ctx: &ToolContext) -> Self {
        Self { is_tool: true, ..Self::of(ctx) }
    }

    /// Waits until the caller cancels the request. Never completes without a cancellation token.
    pub(super) async fn cancelled(&self) {
        match &self.cancellation {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

/// The reason why a request has no result.
pub(super) enum Unmet {
    /// The server has forgotten the session, and did not act on the request. The request may be retried.
    Forgotten(McpError),
    /// Any other error. The request is not retried.
    Failed(McpError),
}

impl From<McpError> for Unmet {
    fn from(error: McpError) -> Self {
        Self::Failed(error)
    }
}

impl From<Unmet> for McpError {
    fn from(unmet: Unmet) -> Self {
        let (Unmet::Forgotten(error) | Unmet::Failed(error)) = unmet;
        error
    }
}

/// Sends a request and waits for its result. If the server requires input, provides the input.
///
/// # Cancel safety
///
/// Dropping the future cancels the request.
pub(super) async fn request(
    connection: &Connection,
    shared: &Shared,
    scope: &Scope,
    request: ClientRequest,
) -> Result<ServerResult, McpError> {
    attempt(connection, shared, scope, request).await.map_err(McpError::from)
}

/// Sends a request like [`request`]. The error tells whether the request may be retried.
pub(super) async fn attempt(
    connection: &Connection,
    shared: &Shared,
    scope: &Scope,
    request: ClientRequest,
) -> Result<ServerResult, Unmet> {
    let span = span(connection, scope, &request);
    let work = rounds(connection, shared, scope, request, &span);
    let result = work.instrument(span.to_enter()).await;
    match &result {
        Ok(result) => span.end(wire::span::failed_tool(result)),
        Err(Unmet::Failed(error)) => span.end(Some(wire::span::failure(error))),
        Err(Unmet::Forgotten(_)) => span.forgo(),
    }
    result
}

/// Returns the span of a request. If the request is the whole work of a tool call, this is the span that `neuron-otel`
/// created for the call, if any.
fn span(connection: &Connection, scope: &Scope, request: &ClientRequest) -> RequestSpan {
    let (version, route) = (connection.version, connection.watch.route());
    let outer = scope.is_tool.then(|| RequestSpan::of_tool_call(version, route)).flatten();
    outer.unwrap_or_else(|| {
        RequestSpan::client(&wire::span::of_client_request(request), version, route)
    })
}

/// Sends a request repeatedly until the server returns a final result. Before each repetition, provides the input or
/// the authorization that the server requires.
async fn rounds(
    connection: &Connection,
    shared: &Shared,
    scope: &Scope,
    mut request: ClientRequest,
    span: &RequestSpan,
) -> Result<ServerResult, Unmet> {
    let method = request.method().to_owned();
    let mut access = shared.authorization.attempt();
    let mut tools_are_known = false;
    let (mut rounds, mut silent_rounds) = (0, 0);
    loop {
        match round(connection, shared, scope, request.clone(), span).await {
            Ok(ServerResult::InputRequiredResult(needed)) => {
                if rounds == MAX_INPUT_ROUNDS {
                    return Err(too_many_rounds(&method).into());
                }
                rounds += 1;
                let asks = needed.input_requests.as_ref().is_some_and(|asked| !asked.is_empty());
                silent_rounds = if asks { 0 } else { silent_rounds + 1 };
                let work = async {
                    pause(silent_rounds).await;
                    answer_input(shared, &mut request, needed).await
                };
                unless_over(connection, scope, &method, work).await?;
            }
            Ok(result) => return Ok(result),
            Err(Failure::Ours(error)) => return Err(error.into()),
            Err(Failure::Service(error)) => {
                let work = access.answer(wire::error::cause_of_service(&error));
                if unless_over(connection, scope, &method, work).await? {
                    continue;
                }
                // The SDK sets `Mcp-Param` headers according to the schemas of the tools, which it takes from received
                // lists. So list the tools once, and repeat the request. The server has not acted on the request (MCP
                // specification 2026-07-28, `Mcp-Param`).
                if wire::error::is_header_mismatch(&error) && !tools_are_known {
                    tools_are_known = true;
                    let limit = shared.settings.max_request_time;
                    let work = learn_tools(connection, shared, scope, span);
                    let learned = tokio::time::timeout(limit, work).await;
                    learned.map_err(|_| McpTimeout::error("tools/list", limit))??;
                    continue;
                }
                if wire::error::is_forgotten_session(&error) {
                    connection.watch.retire();
                    return Err(Unmet::Forgotten(wire::error::from_service(&method, error)));
                }
                if wire::error::is_broken_stream(&error) {
                    // Retired, so that the next request opens a new connection even if the server's output is still
                    // open.
                    connection.watch.retire();
                }
                if wire::error::is_lost_transport(&error) {
                    connection.watch.end();
                }
                let error = wire::error::from_service(&method, error);
                return Err(Unmet::Failed(match connection.watch.is_ended() {
                    true => with_exit_report(error, connection.exit_report.as_ref()).await,
                    false => error,
                }));
            }
        }
    }
}

/// Returns the result of `work`. Returns an error if the caller cancels the request or the connection ends before
/// `work` completes.
async fn unless_over<T>(
    connection: &Connection,
    scope: &Scope,
    method: &str,
    work: impl Future<Output = Result<T, McpError>>,
) -> Result<T, McpError> {
    tokio::select! {
        biased;
        () = scope.cancelled() => Err(cancelled(method)),
        // Polled before the end of the connection, so that a result just before the end is returned.
        done = work => done,
        () = connection.watch.ended() => {
            Err(wire::error::from_service(method, ServiceError::TransportClosed))
        }
    }
}

/// Returns the error for a server that requires input more often than [`MAX_INPUT_ROUNDS`] allows.
pub(super) fn too_many_rounds(method: &str) -> McpError {
    McpError::Other(Box::new(McpLimitExceeded {
        method: method.to_owned(),
        what: "the exchange of input",
        limit: MAX_INPUT_ROUNDS,
        unit: "rounds",
        setting: None,
    }))
}

/// Lists the tools of the server, at most 100 pages. The SDK stores the tools' schemas, which it needs to set the
/// `Mcp-Param` headers of a tool call.
async fn learn_tools(
    connection: &Connection,
    shared: &Shared,
    scope: &Scope,
    span: &RequestSpan,
) -> Result<(), McpError> {
    const MOST_PAGES: usize = 100;
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let asked = PaginatedRequestParams::default().with_cursor(cursor.take());
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(asked));
        match round(connection, shared, scope, request, span).await {
            Ok(ServerResult::ListToolsResult(page)) => cursor = page.next_cursor,
            Ok(_) => break,
            Err(Failure::Ours(error)) => return Err(error),
            Err(Failure::Service(error)) => {
                return Err(wire::error::from_service("tools/list", error));
            }
        }
        if cursor.is_none() {
            break;
        }
    }
    Ok(())
}

/// Waits before a request is repeated. A server asks for a later repetition by an `input_required` result without input
/// requests.
///
/// `silent_rounds` is the number of such results in succession. The first of them causes a wait of 50 ms. Each further
/// result doubles the wait, up to 1.6 s.
async fn pause(silent_rounds: u32) {
    if silent_rounds > 0 {
        let times = 1 << silent_rounds.saturating_sub(1).min(5);
        tokio::time::sleep(Duration::from_millis(50) * times).await;
    }
}

/// Obtains the input that the server requires. Returns the responses by the keys of the requests.
pub(super) async fn answers(
    shared: &Shared,
    asked: InputRequests,
) -> Result<InputResponses, McpError> {
    let asked = asked.into_iter();
    let answers = try_join_all(asked.map(|(key, question)| async move {
        match shared.handlers.answer(question).await {
            Ok(answer) => Ok((key, answer)),
            Err(error) => Err(McpError::Other(
                format!(
                    "cannot provide the input `{key}` that the server requires: {}",
                    error.message
                )
                .into(),
            )),
        }
    }))
    .await?;
    Ok(answers.into_iter().collect())
}

/// Obtains the input that the server requires in `needed`, and adds the input to the request.
async fn answer_input(
    shared: &Shared,
    request: &mut ClientRequest,
    needed: InputRequiredResult,
) -> Result<(), McpError> {
    let answers = answers(shared, needed.input_requests.unwrap_or_default()).await?;
    let answers = (!answers.is_empty()).then_some(answers);
    let (responses, state) = match request {
        ClientRequest::CallToolRequest(request) => {
            (&mut request.params.input_responses, &mut request.params.request_state)
        }
        ClientRequest::GetPromptRequest(request) => {
            (&mut request.params.input_responses, &mut request.params.request_state)
        }
        ClientRequest::ReadResourceRequest(request) => {
            (&mut request.params.input_responses, &mut request.params.request_state)
        }
        // MCP specification 2026-07-28: a server must not require input for any other method.
        request => {
            let text = format!(
                "the server requires input for {}, which the protocol does not allow",
                request.method()
            );
            return Err(McpError::Transport(text));
        }
    };
    *responses = answers;
    *state = needed.request_state;
    Ok(())
}

/// The error of sending a request once, either of the SDK or of this crate.
enum Failure {
    Service(ServiceError),
    Ours(McpError),
}

/// Sends a request once, and waits for the response. Also sends a cancellation to the server in these cases:
///
/// - The future is dropped.
/// - A time limit is exceeded.
/// - The caller cancels the request.
async fn round(
    connection: &Connection,
    shared: &Shared,
    scope: &Scope,
    mut request: ClientRequest,
    span: &RequestSpan,
) -> Result<ServerResult, Failure> {
    let method = request.method().to_owned();
    let progress = &scope.progress;
    request.extensions_mut().insert(Arc::clone(progress));
    let options = PeerRequestOptions::default().with_meta(metadata(connection, shared, scope));
    let sent = connection.peer.send_cancellable_request(request, options);
    let handle = sent.await.map_err(Failure::Service)?;
    span.has_id(&handle.id);

    // Only the response to a tool call may be a task, and only since MCP 2026-07-28.
    let may_create_task = method == "tools/call" && !connection.version.has_handshake();
    let mut abandoned = TellServer {
        abandoned: Some((handle.peer, handle.id)),
        response: handle.rx,
        tasks: may_create_task.then(|| Arc::clone(&connection.watch)),
        reason: "cancelled by the caller",
    };
    let mut questions = connection.watch.questions();
    let settings = &shared.settings;
    let mut clock = Clock::start(settings.request_timeout, settings.max_request_time);
    loop {
        clock.pause(*questions.borrow_and_update() > 0);
        tokio::select! {
            biased;
            answer = &mut abandoned.response => {
                abandoned.disarm();
                let answer = answer.unwrap_or(Err(ServiceError::TransportClosed));
                return answer.map_err(Failure::Service);
            }
            () = connection.watch.ended() => {
                abandoned.disarm();
                return Err(Failure::Service(ServiceError::TransportClosed));
            }
            () = scope.cancelled() => return Err(Failure::Ours(cancelled(&method))),
            () = progress.made() => clock.restart(),
            Ok(()) = questions.changed() => {}
            limit = clock.expired() => {
                abandoned.because("timeout");
                return Err(Failure::Ours(McpTimeout::error(&method, limit)));
            }
        }
    }
}

/// Returns the `_meta` field of a request. The field contains the trace context, and since MCP 2026-07-28 the log
/// level.
fn metadata(connection: &Connection, shared: &Shared, scope: &Scope) -> RequestMetaObject {
    let mut meta = RequestMetaObject::new();
    if let Some(trace) = scope.trace.clone().or_else(|| shared.settings.propagation.current()) {
        wire::trace::to_meta(&trace, &mut meta);
    }
    if !connection.version.has_handshake()
        && let Some(level) = shared.log_level()
    {
        wire::log::level_to_meta(level, &mut meta);
    }
    meta
}

/// Returns the error for a request that the caller cancelled.
pub(super) fn cancelled(method: &str) -> McpError {
    McpError::Other(Box::new(McpCancelled { method: method.to_owned() }))
}

/// Maximum time for sending a cancellation to the server.
pub(super) const TELLING: Duration = Duration::from_secs(10);

/// A guard for a pending request. Dropping the guard sends `notifications/cancelled` to the server. If the server has
/// responded with a task at the same time, the task is cancelled too.
struct TellServer {
    /// The request to cancel. `None` once the guard is disarmed.
    abandoned: Option<(Peer<RoleClient>, RequestId)>,
    /// Receives the response of the server.
    response: oneshot::Receiver<Result<ServerResult, ServiceError>>,
    /// The connection, if the response may be a task.
    tasks: Option<Arc<Watch>>,
    /// The reason that the notification contains.
    reason: &'static str,
}

impl TellServer {
    /// Disables this guard, so that its drop sends no cancellation to the server. Called when the response has arrived
    /// or the connection has ended.
    fn disarm(&mut self) {
        self.abandoned = None;
    }

    fn because(&mut self, reason: &'static str) {
        self.reason = reason;
    }
}

impl Drop for TellServer {
    fn drop(&mut self) {
        let Some((peer, id)) = self.abandoned.take() else { return };
        // Without a runtime, the connection has ended too, and there is nothing to cancel.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let reason = Some(self.reason.to_owned());
        let response = std::mem::replace(&mut self.response, oneshot::channel().1);
        let late = self.tasks.take().map(|watch| (watch.late_response(id.clone()), watch));
        runtime.spawn(async move {
            let params = CancelledNotificationParam::new(Some(id.clone()), reason);
            tell(peer.send_notification(CancelledNotification::new(params).into())).await;
            let Some((late, watch)) = late else { return };
            let result = async {
                tokio::select! {
                    Ok(Ok(result)) = response => Some(result),
                    Ok(result) = late => Some(result),
                    else => None,
                }
            };
            let result = tokio::time::timeout(TELLING, result).await;
            watch.forget(&id);
            let created = result.ok().flatten().as_ref().and_then(wire::task::created);
            if let Some(Ok(task)) = created.map(|created| wire::task::parse(&created, true)) {
                cancel_task(&peer, task.id).await;
            }
        });
    }
}

/// Cancels a task at the server. `notifications/cancelled` must not be used for a task (tasks extension, "Task
/// Cancellation").
pub(super) async fn cancel_task(peer: &Peer<RoleClient>, id: String) {
    tell(peer.cancel_task(CancelTaskParams::new(id))).await;
}

/// Sends a cancellation to the server, for at most [`TELLING`].
async fn tell<T>(telling: impl Future<Output = Result<T, ServiceError>>) {
    if let Ok(Err(error)) = tokio::time::timeout(TELLING, telling).await {
        tracing::debug!(target: "neuron_mcp", %error, "the cancellation of a request could not be sent");
    }
}
