//! What a connection, or a session over HTTP, remembers of its client.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::{Peer, RoleServer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::notifier::{Change, Hub, Listener};
use crate::LogLevel;
use crate::wire;

/// How far the end of a connection over streams has come. Over HTTP nothing of this happens: requests and
/// sessions end by themselves.
#[derive(Clone, Default)]
pub(crate) struct Closing {
    /// The client says nothing any more: no question is answered, and nobody ends a subscription.
    pub(crate) input_ended: CancellationToken,
    /// Calls that still run have to end.
    pub(crate) calls_end: CancellationToken,
}

/// What a connection, or a session over HTTP, remembers of its client.
pub(crate) struct Session {
    hub: Arc<Hub>,
    closing: Closing,
    /// As many as may run at a time.
    calls: Arc<Semaphore>,
    /// How messages come, if not over HTTP: there the request says it.
    transport: Option<&'static str>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What `logging/setLevel` said last.
    log_level: Option<LogLevel>,
    /// Hears of changes, in older versions: from the handshake on.
    listener: Option<Arc<Listener>>,
    /// Whether the client is told of them already.
    is_told: bool,
    /// Subscriptions that were accepted and did not begin yet.
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

    /// A place for a call, until it is dropped; `None` while too many run.
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

    /// Hears of changes of the lists from now on, in older versions.
    pub(crate) fn listen(&self) {
        let mut state = self.lock();
        if state.listener.is_none() {
            let lists = BTreeSet::from([Change::Tools, Change::Resources, Change::Prompts]);
            let listener = Listener::new(lists);
            self.hub.add(&listener);
            state.listener = Some(listener);
        }
    }

    /// Tells the client of changes from now on until the session ends, in older versions.
    pub(crate) fn tell(&self, peer: Peer<RoleServer>) {
        self.listen();
        let mut state = self.lock();
        if std::mem::replace(&mut state.is_told, true) {
            return;
        }
        let Some(listener) = state.listener.clone() else { return };
        // Changes come at any time: somebody must wait for them while no request runs.
        tokio::spawn(async move {
            while let Some(change) = listener.next().await {
                if peer.send_notification(wire::change::notification(change)).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Listens for updates of a resource, in older versions; `false` if that are too many.
    pub(crate) fn subscribe(&self, uri: String) -> bool {
        self.listen();
        self.lock().listener.as_ref().is_some_and(|listener| listener.subscribe(uri))
    }

    /// Listens for updates of a resource no more, in older versions.
    pub(crate) fn unsubscribe(&self, uri: String) {
        if let Some(listener) = &self.lock().listener {
            listener.unsubscribe(uri);
        }
    }

    /// Hears of what a subscription wants, before the client learns that it began: what changes between the
    /// two would be lost else.
    pub(crate) fn accept(&self, wanted: BTreeSet<Change>) {
        let listener = Listener::new(wanted);
        self.hub.add(&listener);
        self.lock().accepted.push(listener);
    }

    /// The listener of a subscription that was accepted.
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
