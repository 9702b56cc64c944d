//! [`McpNotifier`], which sends change notifications to all connected clients.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use neuron_tool::ToolRegistry;
use neuron_types::SEARCH_TOOLS;
use tokio::sync::Notify;

/// Maximum number of resources and lists whose changes a client is notified of. Checked when a client of a protocol
/// version before 2026-07-28 subscribes to a resource.
const MAX_SUBSCRIPTIONS: usize = 10_000;

/// Notifies all connected clients of changes, over every transport.
///
/// The methods never wait for a client. A slow client receives one notification for several changes of the same list or
/// resource.
///
/// Since protocol version 2026-07-28, a client is notified only of the changes to which it has subscribed. In earlier
/// versions, every client is notified of changed lists, and of changed resources to which it has subscribed.
///
/// Created by [`McpServer::notifier`](crate::McpServer::notifier) and [`McpPeer::notifier`](crate::McpPeer::notifier).
/// A notifier holds only a weak reference to the server, so a tool can store it. After the server is dropped, the
/// methods do nothing.
#[derive(Clone, Debug)]
pub struct McpNotifier(Weak<Hub>);

impl McpNotifier {
    /// Creates a notifier for the clients of a server. `hub` has the server's tools and the listeners of its clients.
    pub(crate) fn new(hub: &Arc<Hub>) -> Self {
        Self(Arc::downgrade(hub))
    }

    /// Replaces the server's tools, and notifies clients that the list of tools has changed. Running calls continue
    /// with the old tools. Deferred tools are offered as in [`McpServer::new`](crate::McpServer::new).
    pub fn replace_tools(&self, tools: ToolRegistry) {
        if let Some(hub) = self.0.upgrade() {
            *hub.tools.write().unwrap_or_else(PoisonError::into_inner) = offered(tools);
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

    /// Notifies clients that the content of a resource changed. Only clients that subscribed to the resource are
    /// notified.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.tell(&Change::Resource(uri.into()));
    }

    fn tell(&self, change: &Change) {
        if let Some(hub) = self.0.upgrade() {
            hub.tell(change);
        }
    }
}

/// A kind of change that clients can be notified of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// The list of tools changed.
    Tools,
    /// The list of resources changed.
    Resources,
    /// The list of prompts changed.
    Prompts,
    /// The content of the resource with this URI changed.
    Resource(String),
}

/// The current tools of a server, and the [`Listener`]s that collect changes for its clients. All connections share one
/// hub.
pub(crate) struct Hub {
    tools: RwLock<Arc<ToolRegistry>>,
    /// The listeners of all clients. Dropped listeners are removed when another listener is added.
    listeners: Mutex<Vec<Weak<Listener>>>,
}

impl Hub {
    /// Creates the shared state of a server with these tools and without listeners.
    pub(crate) fn new(tools: ToolRegistry) -> Arc<Self> {
        let tools = RwLock::new(offered(tools));
        Arc::new(Self { tools, listeners: Mutex::default() })
    }

    /// Returns the current tools. The returned registry stays the same if the tools are replaced later.
    pub(crate) fn tools(&self) -> Arc<ToolRegistry> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Registers a listener until it is dropped.
    pub(crate) fn add(&self, listener: &Arc<Listener>) {
        let mut listeners = lock(&self.listeners);
        // Removes the listeners of ended connections and subscriptions, so that the list does not grow.
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(listener));
    }

    /// Passes a change to all listeners.
    fn tell(&self, change: &Change) {
        // The lock is released before the loop, because the loop may drop the last reference to a listener.
        let listening: Vec<_> = lock(&self.listeners).iter().filter_map(Weak::upgrade).collect();
        for listener in listening {
            listener.tell(change);
        }
    }
}

/// Returns the tools that a server offers. These are all tools of a registry, without the search for deferred tools, and
/// without the default limit of their results, because the client limits the results for its model.
fn offered(mut tools: ToolRegistry) -> Arc<ToolRegistry> {
    if tools.defers_tools() {
        // Also removes `call_tool`, which only an agent can run.
        tools.remove(SEARCH_TOOLS);
    }
    if tools.max_output_characters().is_none() {
        tools.set_max_output_characters(usize::MAX);
    }
    Arc::new(tools)
}

/// Collects the changes that a client must be notified of.
///
/// Before protocol version 2026-07-28, each connection or HTTP session has its own listener. In later versions, each
/// subscription has its own.
pub(crate) struct Listener {
    state: Mutex<State>,
    /// Wakes [`Listener::next`] after a change and after [`Listener::close`].
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Changes that the client wants to be notified of.
    wanted: BTreeSet<Change>,
    /// Changes that the client has not been notified of yet, a subset of `wanted`.
    untold: BTreeSet<Change>,
    /// Set once the listener is closed. No more changes are returned.
    is_closed: bool,
}

impl Listener {
    /// Creates a listener for these changes.
    pub(crate) fn new(wanted: BTreeSet<Change>) -> Arc<Self> {
        let state = Mutex::new(State { wanted, ..State::default() });
        Arc::new(Self { state, changed: Notify::new() })
    }

    /// Returns `true` if the listener was created for exactly these changes.
    pub(crate) fn wants(&self, wanted: &BTreeSet<Change>) -> bool {
        lock(&self.state).wanted == *wanted
    }

    /// Notifies the client of changes of a resource from now on. Returns `false` if the client has too many
    /// subscriptions.
    pub(crate) fn subscribe(&self, uri: String) -> bool {
        let mut state = lock(&self.state);
        if state.wanted.len() >= MAX_SUBSCRIPTIONS {
            return false;
        }
        state.wanted.insert(Change::Resource(uri));
        true
    }

    /// Removes a resource from the changes that the client is notified of. A pending notification for the resource is
    /// dropped.
    pub(crate) fn unsubscribe(&self, uri: String) {
        let change = Change::Resource(uri);
        let mut state = lock(&self.state);
        state.wanted.remove(&change);
        state.untold.remove(&change);
    }

    /// Stops collecting changes for the client. [`next`](Self::next) then returns `None`.
    pub(crate) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for the next change that the client must be notified of. Returns `None` after [`close`](Self::close).
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
            // `notify_one` stores a permit, so a change since the check above wakes this task immediately.
            self.changed.notified().await;
        }
    }

    /// Records a change and wakes the waiting task, if the client wants to be notified of this change.
    fn tell(&self, change: &Change) {
        let mut state = lock(&self.state);
        if state.wanted.contains(change) {
            state.untold.insert(change.clone());
            drop(state);
            self.changed.notify_one();
        }
    }
}

/// Locks a mutex, even if it is poisoned.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
