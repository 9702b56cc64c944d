//! The stream of change notifications of a server (MCP specification 2026-07-28, `subscriptions/listen`).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuron_types::McpError;
use rmcp::model::{ServerCapabilities, ServerPeerInfo, SubscriptionFilter};
use rmcp::service::{Peer, RoleClient, Subscription};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::events::{EventSender, McpEvent};
use super::settings::Shared;
use super::task::Task;
use super::watch::Watch;
use crate::McpNotSubscribed;

/// Delay before a stream that ended is opened again. Doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The subscriptions of a connection and its notification stream, if any.
pub(super) struct Listener {
    peer: Peer<RoleClient>,
    watch: Arc<Watch>,
    server: Arc<ServerPeerInfo>,
    slot: Mutex<Slot>,
    resources: Arc<Resources>,
}

#[derive(Debug, Default)]
struct Slot {
    task: Option<Task>,
    stopped: bool,
}

/// The resources whose subscription the server confirmed.
#[derive(Debug, Default)]
struct Resources(Mutex<BTreeSet<String>>);

impl Resources {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, subscription: &Subscription) {
        let uris = subscription.acknowledged().resource_subscriptions.iter().flatten();
        *self.lock() = uris.cloned().collect();
    }
}

impl Listener {
    pub(super) fn new(
        peer: Peer<RoleClient>,
        watch: Arc<Watch>,
        server: Arc<ServerPeerInfo>,
    ) -> Self {
        Self { peer, watch, server, slot: Mutex::default(), resources: Arc::default() }
    }

    /// Returns `true` if the server confirmed the subscription to this resource.
    pub(super) fn hears_of(&self, uri: &str) -> bool {
        self.resources.lock().contains(uri)
    }

    /// Adds a resource whose subscription the server confirmed.
    pub(super) fn hear_of(&self, uri: &str) {
        self.resources.lock().insert(uri.to_owned());
    }

    /// Removes a resource whose subscription has ended.
    pub(super) fn forget(&self, uri: &str) {
        self.resources.lock().remove(uri);
    }

    /// Starts to open the stream of a new connection, and retries until the server accepts it. The receiver completes
    /// after the first attempt. Returns `None` if there is nothing to subscribe to.
    pub(super) fn start(&self, shared: &Shared) -> Option<oneshot::Receiver<()>> {
        let stream = self.stream(shared, shared.subscriptions())?;
        let (sender, opened) = oneshot::channel();
        self.replace(Some(Task::detached(stream.begin(sender))));
        Some(opened)
    }

    /// Opens a stream for the lists and these resources, and then closes the previous stream.
    ///
    /// # Errors
    ///
    /// [`McpNotSubscribed`] if the server does not confirm the `needed` resource. The previous stream stays open after
    /// every error.
    pub(super) async fn renew(
        &self,
        shared: &Shared,
        uris: Vec<String>,
        needed: Option<&str>,
    ) -> Result<(), McpError> {
        let Some(stream) = self.stream(shared, uris) else {
            self.replace(None);
            self.resources.lock().clear();
            return Ok(());
        };
        let subscription = stream.open().await?;
        let accepted = subscription.acknowledged().resource_subscriptions.as_deref();
        if let Some(uri) = needed
            && !accepted.unwrap_or_default().iter().any(|accepted| accepted == uri)
        {
            return Err(McpError::Other(Box::new(McpNotSubscribed { uri: uri.to_owned() })));
        }
        stream.take(&subscription);
        self.replace(Some(Task::detached(stream.keep(subscription))));
        Ok(())
    }

    /// Closes the stream. Later streams are closed at once.
    pub(super) fn stop(&self) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.stopped = true;
        slot.task = None;
    }

    fn replace(&self, task: Option<Task>) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if !slot.stopped {
            slot.task = task;
        }
    }

    /// Creates a stream for the lists and these resources without opening it. `None` if there is nothing to subscribe
    /// to.
    fn stream(&self, shared: &Shared, uris: Vec<String>) -> Option<Stream> {
        let wanted = wanted(&self.server.capabilities, uris);
        (wanted != SubscriptionFilter::default()).then(|| Stream {
            peer: self.peer.clone(),
            watch: Arc::clone(&self.watch),
            events: Arc::clone(&shared.events),
            resources: Arc::clone(&self.resources),
            wanted,
            limit: shared.settings.request_timeout,
        })
    }
}

/// Returns the filter for these resources and for all lists whose changes the server announces.
fn wanted(server: &ServerCapabilities, uris: Vec<String>) -> SubscriptionFilter {
    let mut filter = SubscriptionFilter::new();
    let tools = server.tools.as_ref().and_then(|tools| tools.list_changed);
    filter.tools_list_changed = tools.filter(|told| *told);
    let prompts = server.prompts.as_ref().and_then(|prompts| prompts.list_changed);
    filter.prompts_list_changed = prompts.filter(|told| *told);
    let resources = server.resources.as_ref().and_then(|resources| resources.list_changed);
    filter.resources_list_changed = resources.filter(|told| *told);
    filter.resource_subscriptions = (!uris.is_empty()).then_some(uris);
    filter
}

/// A notification stream that is reopened when it ends.
struct Stream {
    peer: Peer<RoleClient>,
    watch: Arc<Watch>,
    events: Arc<EventSender>,
    resources: Arc<Resources>,
    wanted: SubscriptionFilter,
    limit: Duration,
}

impl Stream {
    async fn open(&self) -> Result<Subscription, McpError> {
        const METHOD: &str = "subscriptions/listen";
        self.watch.within(self.limit, METHOD, self.peer.listen(self.wanted.clone())).await
    }

    /// Makes this subscription the current one.
    fn take(&self, subscription: &Subscription) {
        self.watch.own_subscription(Some(subscription.id().clone()));
        self.resources.replace(subscription);
    }

    /// Opens the stream for the first time, with retries, and keeps it open.
    async fn begin(self, opened: oneshot::Sender<()>) {
        let subscription = match self.open().await {
            Ok(subscription) => {
                self.take(&subscription);
                // A caller that stopped waiting may have requested lists before the stream was open.
                if opened.send(()).is_err() {
                    self.tell_all_changed();
                }
                subscription
            }
            Err(error) => {
                tracing::warn!(target: "neuron_mcp", %error, "the server tells no changes now");
                drop(opened);
                let Some(subscription) = self.reopen(&mut FIRST_PAUSE.clone()).await else {
                    return;
                };
                subscription
            }
        };
        self.keep(subscription).await;
    }

    /// Reopens the stream whenever it ends, until the connection ends.
    async fn keep(self, mut subscription: Subscription) {
        let mut pause = FIRST_PAUSE;
        loop {
            let opened = Instant::now();
            // `Watch` has already handled these notifications, in the order of all messages.
            while let Ok(Some(_)) = subscription.next().await {}
            if opened.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            match self.reopen(&mut pause).await {
                Some(again) => subscription = again,
                None => return,
            }
        }
    }

    /// Reopens the stream, and retries until the server accepts it. Returns `None` once the connection has ended.
    async fn reopen(&self, pause: &mut Duration) -> Option<Subscription> {
        loop {
            tokio::select! {
                biased;
                () = self.watch.ended() => return None,
                () = tokio::time::sleep(*pause) => {}
            }
            *pause = (*pause * 2).min(LONGEST_PAUSE);
            match self.open().await {
                Ok(subscription) => {
                    self.take(&subscription);
                    self.tell_all_changed();
                    return Some(subscription);
                }
                Err(error) => {
                    tracing::debug!(target: "neuron_mcp", %error, "the server tells no changes now");
                }
            }
        }
    }

    /// Reports that everything may have changed while the stream was closed.
    fn tell_all_changed(&self) {
        if self.wanted.tools_list_changed.is_some() {
            self.events.send(McpEvent::ToolsChanged);
        }
        if self.wanted.prompts_list_changed.is_some() {
            self.events.send(McpEvent::PromptsChanged);
        }
        if self.wanted.resources_list_changed.is_some() {
            self.events.send(McpEvent::ResourcesChanged);
        }
        for uri in self.wanted.resource_subscriptions.iter().flatten() {
            self.events.send(McpEvent::ResourceUpdated { uri: uri.clone() });
        }
    }
}
