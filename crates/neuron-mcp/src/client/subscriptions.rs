//! Sending of the log level and the subscriptions to the server, for the first time and over each new connection.
#![expect(
    deprecated,
    reason = "from 2026-07-28 on, `subscriptions/listen` and the metadata of requests say it"
)]

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use neuron_types::McpError;
use rmcp::model::{
    ClientRequest, SetLevelRequest, SubscribeRequest, SubscribeRequestParams, UnsubscribeRequest,
    UnsubscribeRequestParams,
};
use tokio::sync::oneshot;

use super::connection::Connection;
use super::request::{Scope, request};
use super::settings::Shared;
use super::task::Task;
use crate::{LogLevel, McpRequestError, wire};

/// Maximum wait for a server to confirm the log level and the subscriptions over a new connection. Afterwards the
/// client uses the connection without the confirmation.
const RESTORING: Duration = Duration::from_secs(5);
/// Maximum number of concurrent `resources/subscribe` requests over a new connection.
const AT_ONCE: usize = 8;

/// Sends the log level and the subscriptions over a new connection. Errors of the server are logged and ignored.
///
/// Waits at most [`RESTORING`] until the server has confirmed everything. The returned task sends what is then still
/// missing. Since MCP 2026-07-28, returns `None`, because the connection's [`Listener`] sends the subscriptions in its
/// own task.
///
/// [`Listener`]: super::listen::Listener
pub(super) async fn restore(connection: &Arc<Connection>, shared: &Arc<Shared>) -> Option<Task> {
    let (task, confirmed) = match connection.version.has_handshake() {
        true => {
            let (sender, confirmed) = oneshot::channel();
            let work = repeat(Arc::clone(connection), Arc::clone(shared));
            let work = async move {
                work.await;
                let _ = sender.send(());
            };
            (Some(Task::spawn(work)), confirmed)
        }
        false => (None, connection.listener.start(shared)?),
    };
    if tokio::time::timeout(RESTORING, confirmed).await.is_err() {
        tracing::warn!(target: "neuron_mcp", "the server has not yet confirmed the log level and the subscriptions");
    }
    task
}

/// Sends the log level and each subscription in a separate request over a new connection (MCP until 2025-11-25).
async fn repeat(connection: Arc<Connection>, shared: Arc<Shared>) {
    let level = repeat_log_level(&connection, &shared);
    let subscriptions = stream::iter(shared.subscriptions()).for_each_concurrent(AT_ONCE, |uri| {
        repeat_subscription(Arc::clone(&connection), Arc::clone(&shared), uri)
    });
    futures_util::future::join(level, subscriptions).await;
}

/// Sends the log level, if the user has set it and the server supports logging.
async fn repeat_log_level(connection: &Connection, shared: &Shared) {
    if let Some(level) = shared.log_level()
        && connection.server.capabilities.logging.is_some()
        && let Err(error) = log_level(connection, shared, level).await
    {
        tracing::warn!(target: "neuron_mcp", %error, "the server refused the log level");
    }
}

/// Subscribes to a resource over a new connection. Does nothing if the client no longer has this subscription, or if
/// the server has already confirmed it.
async fn repeat_subscription(connection: Arc<Connection>, shared: Arc<Shared>, uri: String) {
    let _unchanged = shared.changing.read().await;
    if shared.has_subscription(&uri)
        && !connection.listener.hears_of(&uri)
        && let Err(error) = ask_to_subscribe(&connection, &shared, &uri).await
    {
        tracing::warn!(target: "neuron_mcp", %error, "the server refused a subscription");
    }
}

/// Sends the log level. Does nothing since MCP 2026-07-28, because every request then carries the log level.
pub(super) async fn log_level(
    connection: &Connection,
    shared: &Shared,
    level: LogLevel,
) -> Result<(), McpError> {
    if !connection.version.has_handshake() {
        return Ok(());
    }
    let asked = SetLevelRequest::new(wire::log::level_request(level));
    request(connection, shared, &Scope::default(), ClientRequest::SetLevelRequest(asked)).await?;
    Ok(())
}

/// Subscribes to a resource, in a spawned task. Only spawned tasks may hold the lock `Shared::changing`.
pub(super) async fn subscribe(
    connection: Arc<Connection>,
    shared: Arc<Shared>,
    uri: String,
) -> Result<(), McpError> {
    let change = Task::spawn(async move {
        let _alone = shared.changing.write().await;
        if shared.has_subscription(&uri) && connection.listener.hears_of(&uri) {
            return Ok(());
        }
        // The subscription is added before the request is sent. If the connection is lost meanwhile, the new connection
        // also sends this subscription.
        let wish = Wish::new(&shared, &uri);
        match connection.version.has_handshake() {
            true => ask_to_subscribe(&connection, &shared, &uri).await?,
            false => {
                let uris = shared.subscriptions();
                connection.listener.renew(&shared, uris, Some(&uri)).await?;
            }
        }
        wish.grant();
        Ok(())
    });
    change.result().await.unwrap_or_else(no_result)
}

/// Ends the subscription to a resource, once the server confirms the end. Until MCP 2025-11-25, a refusal by the server
/// also ends the subscription.
pub(super) async fn unsubscribe(
    connection: Arc<Connection>,
    shared: Arc<Shared>,
    uri: String,
) -> Result<(), McpError> {
    let change = Task::spawn(async move {
        let _alone = shared.changing.write().await;
        if !shared.has_subscription(&uri) {
            return Ok(());
        }
        if connection.version.has_handshake() {
            let params = UnsubscribeRequestParams::new(uri.clone());
            let asked = ClientRequest::UnsubscribeRequest(UnsubscribeRequest::new(params));
            let done = request(&connection, &shared, &Scope::default(), asked).await;
            if done.is_ok() || done.as_ref().is_err_and(is_refusal) {
                connection.listener.forget(&uri);
                shared.remove_subscription(&uri);
            }
            return done.map(drop);
        }
        let mut uris = shared.subscriptions();
        uris.retain(|other| *other != uri);
        connection.listener.renew(&shared, uris, None).await?;
        shared.remove_subscription(&uri);
        Ok(())
    });
    change.result().await.unwrap_or_else(no_result)
}

/// Sends a `resources/subscribe` request (MCP until 2025-11-25), and marks the subscription as confirmed.
async fn ask_to_subscribe(
    connection: &Connection,
    shared: &Shared,
    uri: &str,
) -> Result<(), McpError> {
    let asked = SubscribeRequest::new(SubscribeRequestParams::new(uri));
    request(connection, shared, &Scope::default(), ClientRequest::SubscribeRequest(asked)).await?;
    connection.listener.hear_of(uri);
    Ok(())
}

/// Returns `true` if the error is an error response of the server. Returns `false` for other errors, such as a timeout.
fn is_refusal(error: &McpError) -> bool {
    matches!(error, McpError::Other(error) if error.is::<McpRequestError>())
}

/// Returns the error for a task that ended without a result, because its runtime has ended.
fn no_result() -> Result<(), McpError> {
    Err(McpError::Transport("the connection was lost".to_owned()))
}

/// A new subscription that is not yet confirmed. Dropping the value removes the subscription, unless
/// [`grant`](Self::grant) was called.
struct Wish<'a> {
    shared: &'a Shared,
    uri: &'a str,
    is_granted: bool,
}

impl<'a> Wish<'a> {
    /// Adds the resource `uri` to the client's subscriptions. Dropping the returned value removes a subscription that
    /// this call has added, unless [`grant`](Self::grant) was called.
    fn new(shared: &'a Shared, uri: &'a str) -> Self {
        // A subscription that already existed stays if the request fails.
        let is_granted = !shared.add_subscription(uri);
        Self { shared, uri, is_granted }
    }

    /// Keeps the subscription, because the server has confirmed it.
    fn grant(mut self) {
        self.is_granted = true;
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        if !self.is_granted {
            self.shared.remove_subscription(self.uri);
        }
    }
}

/// Notifies the server that the roots have changed. Does nothing since MCP 2026-07-28, because a server then requests
/// the roots each time it needs them.
pub(super) async fn roots_changed(
    connection: &Connection,
    shared: &Shared,
) -> Result<(), McpError> {
    const METHOD: &str = "notifications/roots/list_changed";
    if !connection.version.has_handshake() {
        return Ok(());
    }
    let limit = shared.settings.request_timeout;
    // The SDK waits until the notification is written. A server that does not read its input would block it forever.
    let told = connection.peer.notify_roots_list_changed();
    connection.watch.within(limit, METHOD, told).await
}
