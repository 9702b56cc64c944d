//! Handling of notifications in the order of their arrival, and of the end of a connection.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::Either;
use neuron_types::{McpError, ProgressReporter};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetExtensions, GetMeta, JsonRpcMessage,
    ProgressNotificationParam, ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification,
    ServerResult,
};
use rmcp::service::{RoleClient, ServiceError};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::events::{EventSender, McpEvent};
use super::handlers::{Handlers, survive};
use super::negotiation::Negotiation;
use super::request_error::McpTimeout;
use crate::route::Route;
use crate::wire;

/// The state of a connection, which its requests and its transport share. Each received message updates the state.
#[derive(Debug)]
pub(super) struct Watch {
    events: Arc<EventSender>,
    handlers: Arc<Handlers>,
    /// Pending requests by progress token, each with its id and its progress receiver. An entry is removed when the
    /// response arrives. [`await_progress`](Self::await_progress) removes entries of dropped receivers.
    waiting: Mutex<HashMap<ProgressToken, (RequestId, Weak<Progress>)>>,
    /// Cancelled tool calls whose response may still arrive, and may be a task.
    abandoned: Mutex<HashMap<RequestId, oneshot::Sender<ServerResult>>>,
    /// The id of this client's own `subscriptions/listen` request. Distinguishes it from requests of this kind that the
    /// user sends through the SDK.
    subscription: Mutex<Option<RequestId>>,
    /// Number of server requests that this client is handling.
    asking: watch::Sender<usize>,
    /// Number of received notifications about tasks.
    tasks: watch::Sender<usize>,
    /// `true` once the protocol version is negotiated.
    settled: AtomicBool,
    /// `true` once the connection accepts no new requests.
    retired: AtomicBool,
    /// Cancelled when the connection has ended.
    ended: CancellationToken,
    route: Route,
}

impl Watch {
    pub(super) fn new(events: Arc<EventSender>, handlers: Arc<Handlers>, route: Route) -> Self {
        Self {
            route,
            events,
            handlers,
            waiting: Mutex::default(),
            abandoned: Mutex::default(),
            subscription: Mutex::default(),
            asking: watch::Sender::new(0),
            tasks: watch::Sender::new(0),
            settled: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            ended: CancellationToken::new(),
        }
    }

    /// Returns the transport, addresses and session id of the connection, for the attributes of spans.
    pub(super) fn route(&self) -> &Route {
        &self.route
    }

    /// Marks the protocol version as negotiated.
    pub(super) fn settle(&self) {
        self.settled.store(true, Ordering::Release);
    }

    /// Waits until the connection has ended.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + '_ {
        self.ended.cancelled()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Returns the result of `work`, a call of the SDK. Returns an error if `limit` is exceeded or the connection ends.
    /// `method` is the MCP method that the error names.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        method: &str,
        work: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, McpError> {
        let done = tokio::select! {
            biased;
            () = self.ended() => Err(ServiceError::TransportClosed),
            done = tokio::time::timeout(limit, work) => {
                done.map_err(|_| McpTimeout::error(method, limit))?
            }
        };
        done.map_err(|error| wire::error::from_service(method, error))
    }

    /// Marks the connection as ended. Pending requests then fail.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Prevents new requests on this connection, while pending requests can still receive responses. Called when the
    /// server has forgotten the session or has closed its input.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// Returns `true` if new requests may be sent over this connection.
    pub(super) fn takes_requests(&self) -> bool {
        !self.is_ended() && !self.is_retired()
    }

    /// Returns `true` if new requests are no longer sent over this connection (see [`retire`](Self::retire)).
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Increments the number of server requests that this client is handling. Dropping the returned value decrements
    /// the number.
    pub(super) fn asking(&self) -> impl Drop + Send + '_ {
        struct Asking<'a>(&'a watch::Sender<usize>);
        impl Drop for Asking<'_> {
            fn drop(&mut self) {
                self.0.send_modify(|count| *count = count.saturating_sub(1));
            }
        }
        self.asking.send_modify(|count| *count += 1);
        Asking(&self.asking)
    }

    /// Returns a receiver of the number of server requests that this client is handling.
    pub(super) fn questions(&self) -> watch::Receiver<usize> {
        self.asking.subscribe()
    }

    /// Returns a receiver that changes with each notification about a task of the server.
    pub(super) fn task_changes(&self) -> watch::Receiver<usize> {
        self.tasks.subscribe()
    }

    /// Sets the id of this client's own `subscriptions/listen` request, or `None` for no request. Notifications of this
    /// subscription are not passed to the SDK.
    pub(super) fn own_subscription(&self, id: Option<RequestId>) {
        *self.subscription.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    /// Registers the progress receiver of a request. Also removes the entries of receivers that were dropped.
    fn await_progress(&self, id: RequestId, token: ProgressToken, progress: &Arc<Progress>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, (_, progress)| progress.strong_count() > 0);
        waiting.insert(token, (id, Arc::downgrade(progress)));
    }

    /// Removes the progress receiver of a request. Called when its response arrives, because no progress follows.
    fn answered(&self, answered: &RequestId) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, (id, _)| id != answered);
    }

    /// Returns a receiver of the late response to a cancelled tool call. The SDK drops the response. Call
    /// [`forget`](Self::forget) afterwards.
    pub(super) fn late_response(&self, id: RequestId) -> oneshot::Receiver<ServerResult> {
        let (sender, response) = oneshot::channel();
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        response
    }

    /// Stops waiting for the late response to a cancelled tool call. Returns its sender.
    pub(super) fn forget(&self, id: &RequestId) -> Option<oneshot::Sender<ServerResult>> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Passes a progress notification to the [`Progress`] of its request. Drops the notification if the request is no
    /// longer pending.
    fn report(&self, progress: &ProgressNotificationParam) {
        let waiting = {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.get(&progress.progress_token).and_then(|(_, progress)| progress.upgrade())
        };
        if let Some(waiting) = waiting {
            waiting.report(progress);
        }
    }

    /// Handles a notification. Returns `true` if the SDK must handle the notification too.
    fn notice(&self, notification: &ServerNotification) -> bool {
        match notification {
            ServerNotification::ProgressNotification(progress) => {
                self.report(&progress.params);
                return true;
            }
            ServerNotification::ToolListChangedNotification(_) => {
                self.events.send(McpEvent::ToolsChanged);
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                self.events.send(McpEvent::ResourcesChanged);
            }
            ServerNotification::PromptListChangedNotification(_) => {
                self.events.send(McpEvent::PromptsChanged);
            }
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.events.send(McpEvent::ResourceUpdated { uri: updated.params.uri.clone() });
            }
            ServerNotification::LoggingMessageNotification(message) => {
                let message = wire::log::message_from_sdk(message.params.clone());
                self.events.send(McpEvent::Log(message));
            }
            ServerNotification::TaskStatusNotification(_) => {
                self.tasks.send_modify(|count| *count = count.wrapping_add(1));
            }
            // The SDK has no type for this notification (MCP specification 2025-11-25, elicitation).
            ServerNotification::CustomNotification(custom)
                if custom.method == "notifications/elicitation/complete" =>
            {
                let id = custom.params.as_ref().and_then(|params| params.get("elicitationId"));
                if let Some(id) = id.and_then(Value::as_str) {
                    self.handlers.elicitation_completed(id);
                }
            }
            _ => return true,
        }
        // The SDK must receive the notifications of subscriptions that the user has opened through the SDK.
        let subscription = notification.get_meta().subscription_id();
        subscription.is_some()
            && subscription != *self.subscription.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiver of the progress notifications of one request. Passes each notification to the user's receiver, and
/// restarts the timeout of the request.
#[derive(Default)]
pub(super) struct Progress {
    /// The user's receiver of progress.
    reporter: Option<Arc<dyn ProgressReporter>>,
    /// The last reported progress.
    last: Mutex<f64>,
    /// Notified of each progress notification, to restart the timeout of the request.
    made: Notify,
}

impl Progress {
    pub(super) fn new(reporter: Option<Arc<dyn ProgressReporter>>) -> Self {
        Self { reporter, ..Self::default() }
    }

    /// Waits for the next progress notification.
    pub(super) fn made(&self) -> impl Future<Output = ()> + Send + '_ {
        self.made.notified()
    }

    /// Passes a progress notification to the user's receiver, and restarts the timeout of the request.
    fn report(&self, progress: &ProgressNotificationParam) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = progress.progress;
        self.pass_on(progress.progress, progress.total, progress.message.as_deref());
        self.made.notify_one();
    }

    /// Passes the status message of a task to the user's receiver, with the last reported progress.
    pub(super) fn status(&self, message: &str) {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.pass_on(last, None, Some(message));
    }

    fn pass_on(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if let Some(reporter) = &self.reporter {
            survive("progress", || reporter.report(progress, total, message));
        }
    }
}

/// A transport that handles notifications in order, by passing its messages to a [`Watch`] before the SDK receives
/// them.
///
/// The SDK handles each notification in its own task. So in the SDK, notifications can overtake each other, and a
/// response can overtake a notification.
#[derive(Debug)]
pub(super) struct Watched<T> {
    transport: T,
    watch: Arc<Watch>,
    negotiation: Negotiation,
}

impl<T> Watched<T> {
    pub(super) fn new(transport: T, watch: Arc<Watch>, negotiation: Negotiation) -> Self {
        Self { transport, watch, negotiation }
    }

    /// Registers the [`Progress`] of a request that is about to be sent. Returns `false` if the message must not be
    /// sent.
    fn note_sent(&mut self, message: &mut ClientJsonRpcMessage) -> bool {
        // The versions with a handshake have no extension for tasks.
        if let JsonRpcMessage::Request(request) = message
            && let ClientRequest::InitializeRequest(initialize) = &mut request.request
        {
            initialize.params.capabilities.extensions = None;
        }
        if let JsonRpcMessage::Request(request) = message
            && let Some(progress) = request.request.extensions_mut().remove::<Arc<Progress>>()
            && let Some(token) = request.request.get_meta().get_progress_token()
        {
            self.watch.await_progress(request.id.clone(), token, &progress);
        }
        self.watch.settled.load(Ordering::Acquire) || self.negotiation.sent(message)
    }

    /// Updates the state for a message that the server sent. Returns the message that the SDK must handle, if any.
    fn note_received(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        if let JsonRpcMessage::Response(response) = &message
            && let Some(late) = self.watch.forget(&response.id)
        {
            // An error means that the client waits no longer.
            let _ = late.send(response.result.clone());
        }
        let answered = match &message {
            // Progress of a task is still accepted.
            JsonRpcMessage::Response(response)
                if matches!(response.result, ServerResult::CreateTaskResult(_)) =>
            {
                None
            }
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Notification(notification) => {
                return self.watch.notice(&notification.notification).then_some(message);
            }
            JsonRpcMessage::Request(_) => None,
        };
        if let Some(id) = answered {
            self.watch.answered(id);
        }
        self.negotiation.received(message)
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match self.note_sent(&mut message) {
            true => Either::Left(self.transport.send(message)),
            false => Either::Right(std::future::ready(Ok(()))),
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let received = self.transport.receive();
            let message = match self.negotiation.deadline() {
                None => received.await,
                Some(until) => match tokio::time::timeout_at(until, received).await {
                    Ok(message) => message,
                    Err(_) => match self.negotiation.expired() {
                        None => continue,
                        answer => return answer,
                    },
                },
            };
            let Some(message) = message else {
                self.watch.end();
                return None;
            };
            if let Some(message) = self.note_received(message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.watch.end();
        self.transport.close().await
    }
}

/// Dropping the transport ends the connection.
impl<T> Drop for Watched<T> {
    fn drop(&mut self) {
        self.watch.end();
    }
}
