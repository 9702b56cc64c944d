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

/// Delay before a stream that has ended is opened again. The delay doubles with each attempt, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum delay before a stream is opened again. After a stream was open for more than 60 seconds, the next delay is
/// [`FIRST_PAUSE`] again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The confirmed subscriptions of a connection. Also contains the stream of change notifications, if the server
/// supports such a stream.
pub(super) struct Listener {
    peer: Peer<RoleClient>,
    watch: Arc<Watch>,
    server: Arc<ServerPeerInfo>,
    /// The task that keeps the stream of change notifications open.
    slot: Mutex<Slot>,
    resources: Arc<Resources>,
}

/// The task that keeps the stream of change notifications open, with a flag that ends the stream permanently.
#[derive(Debug, Default)]
struct Slot {
    task: Option<Task>,
    /// `true` once no new stream may be opened.
    stopped: bool,
}

/// URIs of the resources whose subscription the server has confirmed.
#[derive(Debug, Default)]
struct Resources(Mutex<BTreeSet<String>>);

impl Resources {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the URIs by those in `subscription`, which the server confirmed in the response to
    /// `subscriptions/listen`.
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

    /// Returns `true` if the server has confirmed the subscription to this resource.
    pub(super) fn hears_of(&self, uri: &str) -> bool {
        self.resources.lock().contains(uri)
    }

    /// Marks the subscription to a resource as confirmed by the server.
    pub(super) fn hear_of(&self, uri: &str) {
        self.resources.lock().insert(uri.to_owned());
    }

    /// Marks the subscription to a resource as ended.
    pub(super) fn forget(&self, uri: &str) {
        self.resources.lock().remove(uri);
    }

    /// Starts a task that opens the stream of change notifications over a new connection. The task retries until the
    /// server accepts the stream. The returned receiver completes after the first attempt. Returns `None` and starts no
    /// task if the server can report no changes.
    pub(super) fn start(&self, shared: &Shared) -> Option<oneshot::Receiver<()>> {
        let stream = self.stream(shared, shared.subscriptions())?;
        let (sender, opened) = oneshot::channel();
        self.replace(Some(Task::detached(stream.begin(sender))));
        Some(opened)
    }

    /// Opens a stream that reports changes of the server's lists and of the resources with these URIs, and then closes
    /// the previous stream. If the new stream would report no changes, only closes the previous stream.
    ///
    /// # Errors
    ///
    /// Returns [`McpNotSubscribed`] if the server does not confirm the resource `needed`. After an error, the previous
    /// stream stays open.
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

    /// Closes the stream of change notifications permanently.
    pub(super) fn stop(&self) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.stopped = true;
        slot.task = None;
    }

    /// Replaces the task that keeps the stream of change notifications open. The previous task is aborted, which closes
    /// its stream. `None` only aborts the previous task. After [`stop`](Self::stop), `task` is aborted immediately.
    fn replace(&self, task: Option<Task>) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if !slot.stopped {
            slot.task = task;
        }
    }

    /// Creates a stream that reports changes of the server's lists and of the resources with these URIs. Does not open
    /// the stream yet. Returns `None` if the stream would report no changes.
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

/// Returns the subscription filter for these resources, and for all lists whose changes the server can report.
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

/// A stream of change notifications that is opened again whenever it ends.
struct Stream {
    peer: Peer<RoleClient>,
    watch: Arc<Watch>,
    events: Arc<EventSender>,
    resources: Arc<Resources>,
    /// The changes that the server should report.
    wanted: SubscriptionFilter,
    /// Maximum wait for the server's response to `subscriptions/listen`.
    limit: Duration,
}

impl Stream {
    /// Sends `subscriptions/listen` once, to open the stream of change notifications.
    async fn open(&self) -> Result<Subscription, McpError> {
        const METHOD: &str = "subscriptions/listen";
        self.watch.within(self.limit, METHOD, self.peer.listen(self.wanted.clone())).await
    }

    /// Stores the id of an opened stream, and marks the resources that the server confirmed for this stream.
    fn take(&self, subscription: &Subscription) {
        self.watch.own_subscription(Some(subscription.id().clone()));
        self.resources.replace(subscription);
    }

    /// Opens the stream of change notifications, with retries, and keeps it open. After the first attempt, `opened`
    /// receives a value if the attempt succeeded. Otherwise `opened` is dropped.
    async fn begin(self, opened: oneshot::Sender<()>) {
        let subscription = match self.open().await {
            Ok(subscription) => {
                self.take(&subscription);
                // The caller has stopped waiting, and may have read the lists before the stream was open. So the caller
                // may have missed changes.
                if opened.send(()).is_err() {
                    self.tell_all_changed();
                }
                subscription
            }
            Err(error) => {
                tracing::warn!(target: "neuron_mcp", %error, "the notification stream could not be opened");
                drop(opened);
                let Some(subscription) = self.reopen(&mut FIRST_PAUSE.clone()).await else {
                    return;
                };
                subscription
            }
        };
        self.keep(subscription).await;
    }

    /// Reads the stream of change notifications, and opens a new stream whenever the stream ends. Returns when the
    /// connection ends.
    async fn keep(self, mut subscription: Subscription) {
        let mut pause = FIRST_PAUSE;
        loop {
            let opened = Instant::now();
            // Reads only to notice the end of the stream. `Watch` has already handled these notifications, in order
            // with all other messages.
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

    /// Opens the stream of change notifications again after the delay `pause`. Retries with longer delays until the
    /// server accepts the stream. Returns `None` when the connection ends.
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
                    tracing::debug!(target: "neuron_mcp", %error, "the notification stream could not be opened again");
                }
            }
        }
    }

    /// Sends a change event for each list and resource that the stream covers. Changes may have been missed while the
    /// stream was closed.
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
