//! Telling all connected clients what changed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use neuron_tool::ToolRegistry;
use tokio::sync::Notify;

/// How many resources one client can subscribe to.
const MAX_SUBSCRIPTIONS: usize = 10_000;

/// Tells all connected clients of a server what changed, whatever they are connected over.
///
/// Nothing waits for a client: what a slow one was not told yet is told once. Made by
/// [`McpServer::notifier`](crate::McpServer::notifier) and [`McpPeer::notifier`](crate::McpPeer::notifier).
/// It does not keep the server alive: a tool can hold one.
#[derive(Clone, Debug)]
pub struct McpNotifier(Weak<Hub>);

impl McpNotifier {
    pub(crate) fn new(hub: &Arc<Hub>) -> Self {
        Self(Arc::downgrade(hub))
    }

    /// Offers the tools of another registry from now on, and tells the clients. Calls that run go on.
    pub fn replace_tools(&self, tools: ToolRegistry) {
        if let Some(hub) = self.0.upgrade() {
            *hub.tools.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
            hub.tell(&Change::Tools);
        }
    }

    /// Says that the list of tools changed.
    pub fn tools_changed(&self) {
        self.tell(&Change::Tools);
    }

    /// Says that the list of resources changed.
    pub fn resources_changed(&self) {
        self.tell(&Change::Resources);
    }

    /// Says that the list of prompts changed.
    pub fn prompts_changed(&self) {
        self.tell(&Change::Prompts);
    }

    /// Says that the content of a resource changed, to the clients that subscribed to it.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.tell(&Change::Resource(uri.into()));
    }

    fn tell(&self, change: &Change) {
        if let Some(hub) = self.0.upgrade() {
            hub.tell(change);
        }
    }
}

/// What can change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Tools,
    Resources,
    Prompts,
    /// The content of the resource with this address.
    Resource(String),
}

/// The tools, and everybody who hears of changes.
pub(crate) struct Hub {
    tools: RwLock<Arc<ToolRegistry>>,
    listeners: Mutex<Vec<Weak<Listener>>>,
}

impl Hub {
    pub(crate) fn new(tools: ToolRegistry) -> Arc<Self> {
        let tools = RwLock::new(Arc::new(tools));
        Arc::new(Self { tools, listeners: Mutex::default() })
    }

    /// The tools as they are now.
    pub(crate) fn tools(&self) -> Arc<ToolRegistry> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets a listener hear of changes as long as it lives.
    pub(crate) fn add(&self, listener: &Arc<Listener>) {
        let mut listeners = lock(&self.listeners);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(listener));
    }

    fn tell(&self, change: &Change) {
        // Not told while locked: a listener may be the last owner of something that ends here.
        let listening: Vec<_> = lock(&self.listeners).iter().filter_map(Weak::upgrade).collect();
        for listener in listening {
            listener.tell(change);
        }
    }
}

/// Somebody who hears of changes: a connection of an older version, or a subscription since 2026-07-28.
pub(crate) struct Listener {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// What is listened for.
    wanted: BTreeSet<Change>,
    /// What changed and was not told yet: at most all that is listened for.
    untold: BTreeSet<Change>,
    is_closed: bool,
}

impl Listener {
    pub(crate) fn new(wanted: BTreeSet<Change>) -> Arc<Self> {
        let state = Mutex::new(State { wanted, ..State::default() });
        Arc::new(Self { state, changed: Notify::new() })
    }

    /// What is listened for.
    pub(crate) fn wants(&self, wanted: &BTreeSet<Change>) -> bool {
        lock(&self.state).wanted == *wanted
    }

    /// Listens for updates of a resource too; `false` if it listens for too many.
    pub(crate) fn subscribe(&self, uri: String) -> bool {
        let mut state = lock(&self.state);
        if state.wanted.len() >= MAX_SUBSCRIPTIONS {
            return false;
        }
        state.wanted.insert(Change::Resource(uri));
        true
    }

    /// Listens for updates of a resource no more.
    pub(crate) fn unsubscribe(&self, uri: String) {
        let change = Change::Resource(uri);
        let mut state = lock(&self.state);
        state.wanted.remove(&change);
        state.untold.remove(&change);
    }

    /// Hears of nothing any more.
    pub(crate) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.changed.notify_one();
    }

    /// Waits for a change; `None` when closed.
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
