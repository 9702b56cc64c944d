//! [`Session`], the state of a connection or HTTP session.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::{Peer, RoleServer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::notifier::{Change, Hub, Listener};
use crate::LogLevel;
use crate::wire;

/// Tokens that are cancelled when a connection over a pair of streams ends. Over HTTP they are never cancelled, because
/// sessions end independently of connections.
#[derive(Clone, Default)]
pub(crate) struct Closing {
    /// Cancelled when the client has closed its output. No response and no cancellation can arrive after that.
    pub(crate) input_ended: CancellationToken,
    /// Cancelled when running calls must end.
    pub(crate) calls_end: CancellationToken,
}

/// The state of a connection or HTTP session.
pub(crate) struct Session {
    /// The tools of the server, and the [`Listener`]s that collect changes for its clients.
    hub: Arc<Hub>,
    /// Tokens that signal the end of a connection over a pair of streams. Never cancelled over HTTP.
    closing: Closing,
    /// Limits the number of concurrent calls of the session.
    calls: Arc<Semaphore>,
    /// The span attribute `network.transport`, such as `pipe`. `None` over HTTP and for the streams of
    /// [`McpServer::serve_io`](crate::McpServer::serve_io).
    transport: Option<&'static str>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Log level set by the last `logging/setLevel`. `None` if the client has set none.
    log_level: Option<LogLevel>,
    /// Collects the changes of lists and resources since the handshake. Used only before protocol version 2026-07-28.
    listener: Option<Arc<Listener>>,
    /// `true` once a task that sends the changes of `listener` to the client was started.
    is_told: bool,
    /// Listeners of subscriptions (`subscriptions/listen`) that were accepted but do not send notifications yet.
    accepted: Vec<Arc<Listener>>,
}

impl Session {
    /// Creates the state of a new session. `max_calls` is the maximum number of concurrent calls. `transport` is the
    /// span attribute `network.transport`, such as `pipe`, or `None` if unknown.
    pub(crate) fn new(hub: Arc<Hub>, max_calls: usize, transport: Option<&'static str>) -> Self {
        let calls = Arc::new(Semaphore::new(max_calls));
        Self { hub, closing: Closing::default(), calls, transport, state: Mutex::default() }
    }

    pub(crate) fn transport(&self) -> Option<&'static str> {
        self.transport
    }

    /// Acquires a permit for a call. Returns `None` if the session has reached its maximum number of concurrent calls.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.calls.clone().try_acquire_owned().ok()
    }

    pub(crate) fn closing(&self) -> &Closing {
        &self.closing
    }

    /// Returns the log level that the client has set. Returns `None` if it has set none.
    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        self.lock().log_level
    }

    pub(crate) fn set_log_level(&self, level: LogLevel) {
        self.lock().log_level = Some(level);
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Starts to collect the changes of the lists of tools, resources and prompts. Used only before protocol version
    /// 2026-07-28.
    pub(crate) fn listen(&self) {
        let mut state = self.lock();
        if state.listener.is_none() {
            let lists = BTreeSet::from([Change::Tools, Change::Resources, Change::Prompts]);
            let listener = Listener::new(lists);
            self.hub.add(&listener);
            state.listener = Some(listener);
        }
    }

    /// Starts a task that notifies the client of changed lists and resources until the session ends. Does nothing if
    /// the task already runs. Used only before protocol version 2026-07-28.
    pub(crate) fn tell(&self, peer: Peer<RoleServer>) {
        self.listen();
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_told, true) {
            return;
        }
        let Some(listener) = state.listener.clone() else { return };
        // Changes can occur while no request runs, so a task sends them.
        tokio::spawn(async move {
            while let Some(change) = listener.next().await {
                if peer.send_notification(wire::change::notification(change)).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Subscribes to a resource. Returns `false` if the session has too many subscriptions. Used only before protocol
    /// version 2026-07-28.
    pub(crate) fn subscribe(&self, uri: String) -> bool {
        self.listen();
        self.lock().listener.as_ref().is_some_and(|listener| listener.subscribe(uri))
    }

    /// Unsubscribes from a resource. Used only before protocol version 2026-07-28.
    pub(crate) fn unsubscribe(&self, uri: String) {
        if let Some(listener) = &self.lock().listener {
            listener.unsubscribe(uri);
        }
    }

    /// Accepts a subscription (`subscriptions/listen`) and starts to collect its changes. Must be called before the
    /// client is notified of the acceptance, so that the client misses no later change.
    pub(crate) fn accept(&self, wanted: BTreeSet<Change>) {
        let listener = Listener::new(wanted);
        self.hub.add(&listener);
        self.lock().accepted.push(listener);
    }

    /// Returns the listener of a subscription after the client was notified of its acceptance. The caller sends the
    /// changes of the listener to the client.
    ///
    /// If [`accept`](Self::accept) has created a listener for the same changes, returns this listener. Otherwise
    /// creates a new listener.
    pub(crate) fn begin(&self, wanted: BTreeSet<Change>) -> Arc<Listener> {
        let mut state = self.lock();
        // Several subscriptions may want the same changes. Any of their listeners is suitable.
        let position = state.accepted.iter().position(|listener| listener.wants(&wanted));
        if let Some(position) = position {
            return state.accepted.swap_remove(position);
        }
        let listener = Listener::new(wanted);
        self.hub.add(&listener);
        listener
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Ends the task of `tell`, which waits for the next change.
        if let Some(listener) = self.lock().listener.take() {
            listener.close();
        }
    }
}
