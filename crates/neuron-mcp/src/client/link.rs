//! The connection of a client, which is restored after it was lost.

use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

use neuron_types::McpError;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connect, Connection};
use super::events::{EventSender, McpEvent};
use super::request::{self, TELLING};
use super::settings::Shared;
use super::subscriptions;
use super::task::Task;

/// The current connection of a client. A request over a lost connection first opens a new connection.
///
/// The lock of `state` is never held across an `await`. So a request that the user has stopped polling does not block
/// other requests.
pub(super) struct Link {
    shared: Arc<Shared>,
    /// Opens new connections.
    connect: Arc<dyn Connect>,
    /// Cancelled when the client is closed.
    closed: CancellationToken,
    /// Cancels tasks of the server that the client no longer follows.
    followed: TaskTracker,
    state: Mutex<State>,
}

/// The mutable state of a [`Link`], which owns the current connection of a client and restores it.
struct State {
    /// The last connection that was opened, which may be lost.
    current: Arc<Connection>,
    /// The task that sends the log level and the subscriptions over the current connection. `None` for servers of MCP
    /// 2026-07-28 or later, because another task sends the subscriptions to them.
    restoring: Option<Task>,
    /// Sends [`McpEvent::Disconnected`] when the current connection is lost.
    loss: Loss,
    /// The last attempt to restore the connection, which may still be running.
    attempt: Option<Attempt>,
}

/// A task that waits until a connection is lost and then sends [`McpEvent::Disconnected`]. The event is sent at most
/// once.
struct Loss {
    /// The sender of the event, shared with the task that waits until the connection is lost.
    teller: Arc<Teller>,
    _waiting: Task,
}

/// The sender of [`McpEvent::Disconnected`] for one connection. Sends the event at most once.
struct Teller {
    events: Arc<EventSender>,
    /// Completed once [`McpEvent::Disconnected`] was sent or suppressed. If several callers want to send the event
    /// concurrently, only one sends it, and the others wait for it.
    told: Once,
}

impl Teller {
    /// Sends [`McpEvent::Disconnected`], unless it was sent or suppressed before.
    fn tell(&self) {
        self.told.call_once(|| self.events.send(McpEvent::Disconnected));
    }
}

impl Loss {
    /// Starts a task that sends [`McpEvent::Disconnected`] when the connection is lost.
    fn of(connection: &Connection, shared: &Shared) -> Self {
        let teller = Teller { events: Arc::clone(&shared.events), told: Once::new() };
        let teller = Arc::new(teller);
        let watch = Arc::clone(&connection.watch);
        let telling = Arc::clone(&teller);
        let waiting = Task::detached(async move {
            watch.ended().await;
            telling.tell();
        });
        Self { teller, _waiting: waiting }
    }

    /// Suppresses [`McpEvent::Disconnected`], because the client closes the connection itself.
    fn forgo(&self) {
        self.teller.told.call_once(|| ());
    }
}

/// A running or completed attempt to restore the connection. An attempt continues even if the request that started it
/// is dropped.
struct Attempt {
    /// The result of the attempt. `None` while it runs.
    outcome: watch::Receiver<Option<Outcome>>,
    task: Task,
}

impl Attempt {
    fn is_over(&self) -> bool {
        // An error means that the sender was dropped, because the task's runtime has ended.
        self.outcome.borrow().is_some() || self.outcome.has_changed().is_err()
    }
}

type Outcome = Result<Arc<Connection>, Failure>;

/// The error of a failed attempt to reconnect, for all requests that waited for the attempt. The first request gets the
/// original error. All further requests get [`McpError::Connection`] with the text of that error.
#[derive(Clone)]
struct Failure(Arc<Mutex<(Option<McpError>, String)>>);

impl Failure {
    fn new(error: McpError) -> Self {
        let text = match &error {
            McpError::Connection(text) | McpError::Initialization(text) => text.clone(),
            error => error.to_string(),
        };
        Self(Arc::new(Mutex::new((Some(error), text))))
    }

    /// Returns the original error on the first call. Returns [`McpError::Connection`] with the text of that error on
    /// every later call.
    fn error(&self) -> McpError {
        let mut failure = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (error, text) = &mut *failure;
        error.take().unwrap_or_else(|| McpError::Connection(text.clone()))
    }
}

impl Link {
    /// Opens the first connection, and sends the log level to the server.
    pub(super) async fn open(
        connect: impl Connect + 'static,
        shared: Arc<Shared>,
    ) -> Result<Arc<Self>, McpError> {
        let current = Arc::new(connect.connect(&shared).await?);
        let restoring = subscriptions::restore(&current, &shared).await;
        let loss = Loss::of(&current, &shared);
        let state = State { current, restoring, loss, attempt: None };
        Ok(Arc::new(Self {
            shared,
            connect: Arc::new(connect),
            closed: CancellationToken::new(),
            followed: TaskTracker::new(),
            state: Mutex::new(state),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current connection, which may be lost.
    pub(super) fn current(&self) -> Arc<Connection> {
        Arc::clone(&self.lock().current)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled() || !self.current().watch.takes_requests()
    }

    /// Returns a connection that accepts requests. Restores a lost connection first. Concurrent callers share one
    /// attempt to reconnect and its result.
    pub(super) async fn live(self: &Arc<Self>) -> Result<Arc<Connection>, McpError> {
        loop {
            let mut outcome = {
                let mut state = self.lock();
                if self.closed.is_cancelled() {
                    return Err(closed());
                }
                if state.current.watch.takes_requests() {
                    return Ok(Arc::clone(&state.current));
                }
                if !self.shared.settings.reconnect {
                    return Err(McpError::Transport("the connection was lost".to_owned()));
                }
                // Sent here, so that the event comes before the events of the new connection.
                state.loss.teller.tell();
                let running = state.attempt.take().filter(|attempt| !attempt.is_over());
                let attempt = running.unwrap_or_else(|| self.attempt(&state.current));
                state.attempt.insert(attempt).outcome.clone()
            };
            let outcome = tokio::select! {
                biased;
                () = self.closed.cancelled() => return Err(closed()),
                outcome = outcome.wait_for(Option::is_some) => outcome,
            };
            // No result means that the runtime of the attempt has ended. The loop starts another attempt in the current
            // runtime.
            if let Ok(Some(outcome)) = outcome.as_deref() {
                return outcome.clone().map_err(|failure| failure.error());
            }
        }
    }

    /// Starts a task that opens a new connection and replaces the connection `lost`.
    fn attempt(self: &Arc<Self>, lost: &Arc<Connection>) -> Attempt {
        let (sender, outcome) = watch::channel(None);
        let link = Arc::downgrade(self);
        let connect = Arc::clone(&self.connect);
        let shared = Arc::clone(&self.shared);
        let lost = Arc::clone(lost);
        let task = Task::detached(async move {
            // On a retired connection, pending requests may still receive a response.
            if !lost.watch.is_retired() {
                lost.abandon();
            }
            drop(lost);
            let made = connect.connect(&shared).await;
            let outcome = match made {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    let restoring = subscriptions::restore(&connection, &shared).await;
                    if !Self::adopt(&link, &connection, restoring) {
                        return;
                    }
                    Ok(connection)
                }
                Err(error) => Err(Failure::new(error)),
            };
            sender.send_replace(Some(outcome));
        });
        Attempt { outcome, task }
    }

    /// Makes a new connection the current one. Sends [`McpEvent::Reconnected`] and a change event for each kind of
    /// list, because the lists may have changed. Returns `false` if the client was closed or dropped. `restoring` is
    /// the task that sends the log level and the subscriptions over the connection.
    fn adopt(link: &Weak<Self>, connection: &Arc<Connection>, restoring: Option<Task>) -> bool {
        let Some(link) = link.upgrade() else { return false };
        let mut state = link.lock();
        if link.closed.is_cancelled() {
            return false;
        }
        // The lists may have changed while the connection was lost.
        for event in [
            McpEvent::Reconnected,
            McpEvent::ToolsChanged,
            McpEvent::ResourcesChanged,
            McpEvent::PromptsChanged,
        ] {
            link.shared.events.send(event);
        }
        state.loss = Loss::of(connection, &link.shared);
        state.current = Arc::clone(connection);
        state.restoring = restoring;
        true
    }

    /// Waits until the client is closed, and returns the error for a pending request on a retired connection. Never
    /// completes if `connection` is not retired when the client is closed.
    ///
    /// A retired connection accepts no new requests, but its pending requests may still receive responses. Closing the
    /// client closes only the current connection. Pending requests on a retired connection therefore need this function
    /// to end.
    pub(super) async fn closed_meanwhile(&self, connection: &Connection) -> McpError {
        let error = self.closed().await;
        if !connection.watch.is_retired() {
            std::future::pending().await
        }
        error
    }

    /// Waits until the client is closed, and returns the error for its pending work.
    pub(super) async fn closed(&self) -> McpError {
        self.closed.cancelled().await;
        closed()
    }

    /// Cancels the task `id` at the server when the returned value is dropped, or when the client is closed. Uses the
    /// connection of that time, which may be restored for it. Send a value once the task has ended.
    pub(super) fn follow(self: &Arc<Self>, id: &str) -> oneshot::Sender<()> {
        let (ended, has_ended) = oneshot::channel();
        let (link, closed, id) = (Arc::downgrade(self), self.closed.clone(), id.to_owned());
        self.followed.spawn(async move {
            tokio::select! {
                biased;
                ended = has_ended => if ended.is_ok() { return },
                () = closed.cancelled() => {}
            }
            let Some(link) = link.upgrade() else { return };
            let connection = match tokio::time::timeout(TELLING, link.live()).await {
                Ok(Ok(connection)) => connection,
                _ => link.current(),
            };
            // Not held any longer, so that a drop of the client ends the connection immediately.
            drop(link);
            request::cancel_task(&connection.peer, id).await;
        });
        ended
    }

    /// Closes the connection permanently, and stops an attempt to restore it. First cancels the tasks that the client
    /// follows.
    pub(super) async fn close(&self) {
        self.closed.cancel();
        let (current, attempt) = {
            let mut state = self.lock();
            state.loss.forgo();
            (Arc::clone(&state.current), state.attempt.take())
        };
        if let Some(attempt) = attempt {
            attempt.task.stop().await;
        }
        // Pending requests fail immediately.
        current.watch.end();
        self.followed.close();
        // An error means that the server does not respond.
        let _ = tokio::time::timeout(TELLING, self.followed.wait()).await;
        current.close().await;
        self.shared.events.close();
    }
}

/// Ends the connection immediately, even if other code still holds an `Arc` of the connection.
impl Drop for Link {
    fn drop(&mut self) {
        let state = self.lock();
        state.loss.forgo();
        state.current.abandon();
    }
}

/// Returns the error for requests after the client was closed.
fn closed() -> McpError {
    McpError::Transport("the client is closed".to_owned())
}
