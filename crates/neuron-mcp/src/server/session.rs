//! State of a connection or HTTP session.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::{Peer, RoleServer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::notifier::{Change, Hub, Listener};
use crate::LogLevel;
use crate::wire;

/// Stages at the end of a stream connection. They are not used over HTTP, where requests and sessions end on their own.
#[derive(Clone, Default)]
pub(crate) struct Closing {
    /// Cancelled when the client's input has ended. No response and no cancellation can arrive after that.
    pub(crate) input_ended: CancellationToken,
    /// Cancelled when running calls must end.
    pub(crate) calls_end: CancellationToken,
}

/// The state of a connection or HTTP session.
pub(crate) struct Session {
    hub: Arc<Hub>,
    closing: Closing,
    /// Limits the number of concurrent calls.
    calls: Arc<Semaphore>,
    /// Transport of a stream connection. `None` over HTTP, where each request has its own route.
    transport: Option<&'static str>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Level set by the last `logging/setLevel`.
    log_level: Option<LogLevel>,
    /// Listener for changes since the handshake, in older versions.
    listener: Option<Arc<Listener>>,
    /// Set once changes are sent to the client.
    is_told: bool,
    /// Subscriptions that were accepted and have not begun.
    accepted: Vec<Arc<Listener>>,
}

impl Session {
    pub(crate) fn new(hub: Arc<Hub>, max_calls: usize, transport: Option<&'static str>) -> Self {
        let calls = Arc::new(Semaphore::new(max_calls));
        Self { hub, closing: Closing::default(), calls, transport, state: Mutex::default() }
    }

    pub(crate) fn transport(&self) -> Option<&'static str> {
        self.transport
    }

    /// Takes a permit for a call. Returns `None` if too many calls are running.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.calls.clone().try_acquire_owned().ok()
    }

    pub(crate) fn closing(&self) -> &Closing {
        &self.closing
    }

    pub(crate) fn log_level(&self) -> Option<LogLevel> {
        self.lock().log_level
    }

    pub(crate) fn set_log_level(&self, level: LogLevel) {
        self.lock().log_level = Some(level);
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Starts collecting changes of the lists, in older versions.
    pub(crate) fn listen(&self) {
        let mut state = self.lock();
        if state.listener.is_none() {
            let lists = BTreeSet::from([Change::Tools, Change::Resources, Change::Prompts]);
            let listener = Listener::new(lists);
            self.hub.add(&listener);
            state.listener = Some(listener);
        }
    }

    /// Sends changes to the client until the session ends, in older versions.
    pub(crate) fn tell(&self, peer: Peer<RoleServer>) {
        self.listen();
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_told, true) {
            return;
        }
        let Some(listener) = state.listener.clone() else { return };
        // A task is required, because changes can arrive while no request runs.
        tokio::spawn(async move {
            while let Some(change) = listener.next().await {
                if peer.send_notification(wire::change::notification(change)).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Subscribes to a resource, in older versions. Returns `false` if there are too many subscriptions.
    pub(crate) fn subscribe(&self, uri: String) -> bool {
        self.listen();
        self.lock().listener.as_ref().is_some_and(|listener| listener.subscribe(uri))
    }

    /// Unsubscribes from a resource, in older versions.
    pub(crate) fn unsubscribe(&self, uri: String) {
        if let Some(listener) = &self.lock().listener {
            listener.unsubscribe(uri);
        }
    }

    /// Accepts a subscription, and starts collecting its changes before the client is informed. Otherwise a change
    /// between the two would be lost.
    pub(crate) fn accept(&self, wanted: BTreeSet<Change>) {
        let listener = Listener::new(wanted);
        self.hub.add(&listener);
        self.lock().accepted.push(listener);
    }

    /// Returns the listener of an accepted subscription.
    pub(crate) fn begin(&self, wanted: BTreeSet<Change>) -> Arc<Listener> {
        let mut state = self.lock();
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
        if let Some(listener) = self.lock().listener.take() {
            listener.close();
        }
    }
}
