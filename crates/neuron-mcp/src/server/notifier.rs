//! Change notifications to all connected clients.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use neuron_tool::ToolRegistry;
use tokio::sync::Notify;

/// Maximum number of resources that one client can subscribe to.
const MAX_SUBSCRIPTIONS: usize = 10_000;

/// Notifies all connected clients of changes, over every transport.
///
/// Sending never waits for a client. Repeated changes are merged while a client is slow. Created by
/// [`McpServer::notifier`](crate::McpServer::notifier) and [`McpPeer::notifier`](crate::McpPeer::notifier). It holds a
/// weak reference to the server, so a tool can store it.
#[derive(Clone, Debug)]
pub struct McpNotifier(Weak<Hub>);

impl McpNotifier {
    pub(crate) fn new(hub: &Arc<Hub>) -> Self {
        Self(Arc::downgrade(hub))
    }

    /// Replaces the tools with another registry, and notifies the clients. Running calls continue with the old tools.
    pub fn replace_tools(&self, tools: ToolRegistry) {
        if let Some(hub) = self.0.upgrade() {
            *hub.tools.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
            hub.tell(&Change::Tools);
        }
    }

    /// Notifies clients that the list of tools changed.
    pub fn tools_changed(&self) {
        self.tell(&Change::Tools);
    }

    /// Notifies clients that the list of resources changed.
    pub fn resources_changed(&self) {
        self.tell(&Change::Resources);
    }

    /// Notifies clients that the list of prompts changed.
    pub fn prompts_changed(&self) {
        self.tell(&Change::Prompts);
    }

    /// Notifies the clients that subscribed to a resource that its content changed.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.tell(&Change::Resource(uri.into()));
    }

    fn tell(&self, change: &Change) {
        if let Some(hub) = self.0.upgrade() {
            hub.tell(change);
        }
    }
}

/// A kind of change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Tools,
    Resources,
    Prompts,
    /// The content of the resource with this URI.
    Resource(String),
}

/// The tools, and the listeners for changes.
pub(crate) struct Hub {
    tools: RwLock<Arc<ToolRegistry>>,
    listeners: Mutex<Vec<Weak<Listener>>>,
}

impl Hub {
    pub(crate) fn new(tools: ToolRegistry) -> Arc<Self> {
        let tools = RwLock::new(Arc::new(tools));
        Arc::new(Self { tools, listeners: Mutex::default() })
    }

    /// Returns the current tools.
    pub(crate) fn tools(&self) -> Arc<ToolRegistry> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Registers a listener for as long as it lives.
    pub(crate) fn add(&self, listener: &Arc<Listener>) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(listener));
    }

    fn tell(&self, change: &Change) {
        // Notified outside the lock, because this may drop the last reference to a listener and what it owns.
        let listening: Vec<_> = lock(&self.listeners).iter().filter_map(Weak::upgrade).collect();
        for listener in listening {
            listener.tell(change);
        }
    }
}

/// A receiver of changes. In older versions this is a connection, since 2026-07-28 a subscription.
pub(crate) struct Listener {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Changes to listen for.
    wanted: BTreeSet<Change>,
    /// Changes that are not sent yet. Never more than those in `wanted`.
    untold: BTreeSet<Change>,
    is_closed: bool,
}

impl Listener {
    pub(crate) fn new(wanted: BTreeSet<Change>) -> Arc<Self> {
        let state = Mutex::new(State { wanted, ..State::default() });
        Arc::new(Self { state, changed: Notify::new() })
    }

    /// Returns `true` if the listener wants exactly these changes.
    pub(crate) fn wants(&self, wanted: &BTreeSet<Change>) -> bool {
        lock(&self.state).wanted == *wanted
    }

    /// Subscribes to a resource. Returns `false` if there are too many subscriptions.
    pub(crate) fn subscribe(&self, uri: String) -> bool {
        let mut state = lock(&self.state);
        if state.wanted.len() >= MAX_SUBSCRIPTIONS {
            return false;
        }
        state.wanted.insert(Change::Resource(uri));
        true
    }

    /// Unsubscribes from a resource.
    pub(crate) fn unsubscribe(&self, uri: String) {
        let change = Change::Resource(uri);
        let mut state = lock(&self.state);
        state.wanted.remove(&change);
        state.untold.remove(&change);
    }

    /// Stops receiving changes.
    pub(crate) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for a change. Returns `None` when closed.
    pub(crate) async fn next(&self) -> Option<Change> {
        loop {
            {
                let mut state = lock(&self.state);
                if state.is_closed {
                    return None;
                }
                if let Some(change) = state.untold.pop_first() {
                    return Some(change);
                }
            }
            self.changed.notified().await;
        }
    }

    fn tell(&self, change: &Change) {
        let mut state = lock(&self.state);
        if state.wanted.contains(change) {
            state.untold.insert(change.clone());
            drop(state);
            self.changed.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
