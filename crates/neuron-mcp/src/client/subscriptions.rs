//! The log level and the subscriptions of a client, which are sent to a new connection again.
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

/// Maximum wait for a new server to confirm them. Then the connection may be used, and the rest is confirmed later.
const RESTORING: Duration = Duration::from_secs(5);
/// So many subscriptions are on their way to it at once.
const AT_ONCE: usize = 8;

/// Tells a new server all of it. What it refuses is left out. The task goes on with what the server did not
/// confirm in time.
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
        tracing::warn!(target: "neuron_mcp", "the server does not say whether it will tell what changes");
    }
    task
}

/// Sends them to a new server, in the versions that have requests for it.
async fn repeat(connection: Arc<Connection>, shared: Arc<Shared>) {
    let level = repeat_log_level(&connection, &shared);
    let subscriptions = stream::iter(shared.subscriptions()).for_each_concurrent(AT_ONCE, |uri| {
        repeat_subscription(Arc::clone(&connection), Arc::clone(&shared), uri)
    });
    futures_util::future::join(level, subscriptions).await;
}

async fn repeat_log_level(connection: &Connection, shared: &Shared) {
    if let Some(level) = shared.log_level()
        && connection.server.capabilities.logging.is_some()
        && let Err(error) = log_level(connection, shared, level).await
    {
        tracing::warn!(target: "neuron_mcp", %error, "the server refused a log level");
    }
}

async fn repeat_subscription(connection: Arc<Connection>, shared: Arc<Shared>, uri: String) {
    let _unchanged = shared.changing.read().await;
    if shared.has_subscription(&uri)
        && !connection.listener.hears_of(&uri)
        && let Err(error) = ask_to_subscribe(&connection, &shared, &uri).await
    {
        tracing::warn!(target: "neuron_mcp", %error, "the server refused a subscription");
    }
}

/// Tells which log messages are wanted. From 2026-07-28 on, every request says so itself.
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

/// Subscribes to a resource.
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
        // Before the server is asked: a connection that is made in the meantime is to be told, too.
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

/// Ends a subscription. It lasts until the server says that it ended, or that there is none.
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

/// Subscribes to a resource, in the versions that have a request for it.
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

fn is_refusal(error: &McpError) -> bool {
    matches!(error, McpError::Other(error) if error.is::<McpRequestError>())
}

/// The runtime ended in which a change was made.
fn no_result() -> Result<(), McpError> {
    Err(McpError::Transport("the connection was lost".to_owned()))
}

/// A new subscription, which is none unless it is granted.
struct Wish<'a> {
    shared: &'a Shared,
    uri: &'a str,
    is_granted: bool,
}

impl<'a> Wish<'a> {
    fn new(shared: &'a Shared, uri: &'a str) -> Self {
        // One that was there before stays.
        let is_granted = !shared.add_subscription(uri);
        Self { shared, uri, is_granted }
    }

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

/// Tells that there are other roots, in the versions that have a notification for it. From 2026-07-28 on, a
/// server asks when it needs them.
pub(super) async fn roots_changed(
    connection: &Connection,
    shared: &Shared,
) -> Result<(), McpError> {
    const METHOD: &str = "notifications/roots/list_changed";
    if !connection.version.has_handshake() {
        return Ok(());
    }
    let limit = shared.settings.request_timeout;
    // The SDK waits until it is sent: a server that reads nothing would make that for ever.
    let told = connection.peer.notify_roots_list_changed();
    connection.watch.within(limit, METHOD, told).await
}
