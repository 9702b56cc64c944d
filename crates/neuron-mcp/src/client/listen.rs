//! Changes at a server, on a stream of notifications (MCP specification 2026-07-28, `subscriptions/listen`).

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

/// A stream that ended is opened again after this time, which doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The subscriptions of a connection, and its stream if it has one.
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

/// The resources of which the server said that it tells their updates.
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

    /// Returns `true` if the server confirmed that it sends updates of this resource.
    pub(super) fn hears_of(&self, uri: &str) -> bool {
        self.resources.lock().contains(uri)
    }

    /// Notes that the server tells the updates of this resource.
    pub(super) fn hear_of(&self, uri: &str) {
        self.resources.lock().insert(uri.to_owned());
    }

    /// Notes that it does not any more.
    pub(super) fn forget(&self, uri: &str) {
        self.resources.lock().remove(uri);
    }

    /// Opens the stream of a new connection, if there is anything to tell on it, now or whenever the server
    /// lets it. The receiver hears when it was opened, or could not be.
    pub(super) fn start(&self, shared: &Shared) -> Option<oneshot::Receiver<()>> {
        let stream = self.stream(shared, shared.subscriptions())?;
        let (sender, opened) = oneshot::channel();
        self.replace(Some(Task::detached(stream.begin(sender))));
        Some(opened)
    }

    /// Opens a stream for the lists and these resources, then ends the one before. If one resource is
    /// needed and the server leaves it out, that is an error, and the stream before stays.
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

    /// Ends the stream, and all that come.
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

    /// Creates a stream for the lists and these resources, which is not open yet. `None` if there is nothing to
    /// subscribe to.
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

/// All lists that the server says may change, and these resources.
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

/// A stream that is kept open.
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

    /// From now on, this one tells.
    fn take(&self, subscription: &Subscription) {
        self.watch.own_subscription(Some(subscription.id().clone()));
        self.resources.replace(subscription);
    }

    /// Opens the stream for the first time, at once or later, and keeps it open.
    async fn begin(self, opened: oneshot::Sender<()>) {
        let subscription = match self.open().await {
            Ok(subscription) => {
                self.take(&subscription);
                // Who waits no more may have asked for lists in the meantime.
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

    /// Opens the stream again whenever it ends, until the connection does.
    async fn keep(self, mut subscription: Subscription) {
        let mut pause = FIRST_PAUSE;
        loop {
            let opened = Instant::now();
            // What it tells was told already, in the order of all messages: see `Watch`.
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

    /// Opens the stream again as soon as the server allows it. `None` once the connection ended.
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
