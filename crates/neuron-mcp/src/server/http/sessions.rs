//! [`Sessions`], which limits the HTTP sessions of a server, records their owners, and ends idle sessions.
//!
//! The sessions themselves are stored in the session manager of the SDK (crate `rmcp`). The SDK's idle timeout is off,
//! because it would also end sessions with a running call or a listening client. This module ends only sessions without
//! a running request and without an open stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{Stream, future};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::server_side_http::ServerSseMessage;
use rmcp::transport::streamable_http_server::SessionId;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker,
};
use rmcp::transport::worker::WorkerTransport;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::span::session_prefix;

/// Maximum time for closing a session. After this time the session is no longer counted.
const CLOSING: Duration = Duration::from_secs(1);

/// Maximum idle time of a session whose client has sent nothing after `initialize`.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(30);

/// The key by which the sessions of each client are counted. The key is the client's identity, or its IP address if the
/// server does not authenticate. `None` if both are unknown.
pub(super) type Client = Option<Arc<str>>;

/// The HTTP sessions of a server.
pub(super) struct Sessions {
    /// The SDK's session manager, which stores the sessions.
    sdk: LocalSessionManager,
    /// Limits on the number and the idle time of sessions.
    limits: SessionLimits,
    /// Data that this module stores about the sessions.
    state: Mutex<State>,
    /// Number of sessions. [`Sessions::ended`] waits until it is zero.
    count: watch::Sender<usize>,
}

/// Data about the sessions of a server.
#[derive(Default)]
struct State {
    /// Sessions by id.
    sessions: HashMap<SessionId, Session>,
    /// Clients for which a session is reserved but not yet created. Contains one entry for each reservation.
    reserved: Vec<Client>,
}

impl State {
    /// Returns the number of existing and reserved sessions whose client satisfies a condition.
    fn count(&self, is_counted: impl Fn(&Client) -> bool) -> usize {
        let begun = self.sessions.values().map(|session| &session.client);
        begun.chain(&self.reserved).filter(|client| is_counted(client)).count()
    }
}

/// Limits on the number and the idle time of sessions.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionLimits {
    /// Maximum number of sessions.
    pub(super) all: usize,
    /// Maximum number of sessions of one client.
    pub(super) of_a_client: usize,
    /// Time after which an idle session ends.
    pub(super) idle: Duration,
}

/// The result of [`Sessions::reserve`], an attempt to reserve a session.
pub(super) enum Room {
    /// A session is reserved.
    Free(Reservation),
    /// A limit on sessions is reached. The unused session with this id must be closed before the next attempt.
    After(SessionId),
    /// A limit on sessions is reached, and all sessions that could be closed are in use.
    Full,
}

/// Data about one session.
struct Session {
    /// Subject of the identity that began the session. `None` if the server does not authenticate.
    owner: Option<Arc<str>>,
    /// The client whose limit on sessions includes this session.
    client: Client,
    /// Set once the client has sent something after `initialize`.
    has_begun: bool,
    /// Number of running requests and open streams.
    uses: usize,
    /// Time when the last request or stream ended, or when the session was created.
    used: Instant,
    /// Set while the session is being closed. New requests are refused as if the session did not exist.
    is_ending: bool,
}

impl Sessions {
    /// Creates the manager without sessions.
    pub(super) fn new(limits: SessionLimits) -> Self {
        let mut sdk = LocalSessionManager::default();
        // Switches off the SDK's idle timeout, which would end a session even while a call is running.
        sdk.session_config.keep_alive = None;
        Self { sdk, limits, state: Mutex::default(), count: watch::Sender::new(0) }
    }

    /// Reserves a session for a client. If a limit is reached, first closes an idle session:
    ///
    /// - If the client has reached its limit, a session of this client is closed.
    /// - If only the server has reached its limit, a session of any client is closed.
    /// - Sessions without a message after `initialize` are closed first, then the session that was idle for the longest
    ///   time.
    ///
    /// Returns `None` if all sessions that may be closed are in use.
    pub(super) async fn make_room(self: &Arc<Self>, client: &Client) -> Option<Reservation> {
        self.close_idle().await;
        loop {
            match self.reserve(client) {
                Room::Free(reservation) => return Some(reservation),
                Room::After(id) => self.close(&id, "another session begins").await,
                Room::Full => return None,
            }
        }
    }

    /// Tries to reserve a session for a client. If a limit is reached, returns the id of an unused session instead,
    /// which the caller must close. That session accepts no more requests.
    fn reserve(self: &Arc<Self>, client: &Client) -> Room {
        let mut state = self.state();
        let is_own = |other: &Client| client.is_some() && other == client;
        let is_full = state.count(|_| true) >= self.limits.all;
        let has_all = state.count(is_own) >= self.limits.of_a_client;
        if !is_full && !has_all {
            state.reserved.push(client.clone());
            return Room::Free(Reservation { sessions: self.clone(), client: client.clone() });
        }
        // If the client has reached its own limit, only its own sessions may end.
        let may_end =
            |session: &Session| session.uses == 0 && (!has_all || is_own(&session.client));
        let unused = state.sessions.iter_mut().filter(|(_, session)| may_end(session));
        // Sessions whose client has sent nothing after `initialize` are closed first.
        match unused.min_by_key(|(_, session)| (session.has_begun, session.used)) {
            Some((id, session)) => {
                session.is_ending = true;
                Room::After(id.clone())
            }
            None => Room::Full,
        }
    }

    /// Records the owner and the client of a session that the SDK has created. `owner` is the subject of the
    /// authenticated identity. It is `None` if the server does not authenticate.
    pub(super) fn begun(&self, id: &str, owner: Option<Arc<str>>, client: Client) {
        if let Some(session) = self.state().sessions.get_mut(id) {
            (session.owner, session.client) = (owner, client);
        }
    }

    /// Marks a session as used until the returned [`SessionUse`] is dropped. A used session is not idle. Returns `None`
    /// if the session does not exist or is being closed.
    ///
    /// `by` is the subject of the identity that sent the request. It is `None` if the server does not authenticate.
    ///
    /// # Errors
    ///
    /// Returns an error if another identity owns the session.
    pub(super) fn enter(
        self: &Arc<Self>,
        id: &str,
        by: Option<&str>,
    ) -> Result<Option<SessionUse>, SessionOwnerMismatch> {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(id) else {
            return Ok(None);
        };
        if session.owner.as_deref() != by {
            return Err(SessionOwnerMismatch);
        }
        if session.is_ending {
            return Ok(None);
        }
        session.uses += 1;
        Ok(Some(SessionUse { sessions: self.clone(), id: id.into() }))
    }

    /// Closes the sessions whose idle timeout has passed.
    pub(super) async fn close_idle(&self) {
        let idle = self.take_idle();
        future::join_all(idle.iter().map(|id| self.close(id, "idle"))).await;
    }

    /// Closes a session. `reason` is logged.
    async fn close(&self, id: &SessionId, reason: &str) {
        tracing::debug!(session = session_prefix(id), reason, "closing a session");
        // A session that does not react is no longer counted. It ends when the server ends.
        if tokio::time::timeout(CLOSING, self.close_session(id)).await.is_err() {
            self.forget(id);
        }
    }

    /// Returns the ids of all sessions whose idle timeout has passed, and marks the sessions as ending. Requests for a
    /// session that is marked as ending are refused.
    fn take_idle(&self) -> Vec<SessionId> {
        let mut state = self.state();
        let idle = |one: &Session| match one.has_begun {
            true => self.limits.idle,
            false => self.limits.idle.min(HANDSHAKE),
        };
        let is_idle = |one: &Session| one.uses == 0 && one.used.elapsed() >= idle(one);
        // Includes sessions that an earlier call marked as ending. The future that closes them may have been dropped.
        let idle = state.sessions.iter_mut().filter(|(_, one)| is_idle(one));
        let taken = idle.map(|(id, session)| {
            session.is_ending = true;
            id.clone()
        });
        taken.collect()
    }

    /// Waits until all sessions have ended.
    pub(super) async fn ended(&self) {
        // An error would mean a dropped sender, but `self` owns it.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Records that the client of a session has sent a message after `initialize`.
    fn has_begun(&self, id: &SessionId) {
        if let Some(session) = self.state().sessions.get_mut(id) {
            session.has_begun = true;
        }
    }

    /// Removes the data that this module stores about a session.
    fn forget(&self, id: &SessionId) {
        let mut state = self.state();
        state.sessions.remove(id);
        self.count.send_replace(state.sessions.len());
    }

    /// Locks the data about the sessions, even if the lock is poisoned.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Error for a request whose identity does not own the session.
pub(super) struct SessionOwnerMismatch;

/// A place for a session that is about to be created. Counts as a session until the value is dropped. Callers drop the
/// value once the session was created or refused.
pub(super) struct Reservation {
    sessions: Arc<Sessions>,
    client: Client,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let reserved = &mut self.sessions.state().reserved;
        if let Some(place) = reserved.iter().position(|client| *client == self.client) {
            reserved.swap_remove(place);
        }
    }
}

/// Guard that keeps a session in use. The session's idle time begins when its last guard is dropped.
pub(super) struct SessionUse {
    sessions: Arc<Sessions>,
    id: SessionId,
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        if let Some(session) = self.sessions.state().sessions.get_mut(&self.id) {
            session.uses -= 1;
            session.used = Instant::now();
        }
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.sdk.create_session().await?;
        // `begun` sets the owner and the client when the SDK has handled `initialize`.
        let session = Session {
            owner: None,
            client: None,
            has_begun: false,
            uses: 0,
            used: Instant::now(),
            is_ending: false,
        };
        let mut state = self.state();
        state.sessions.insert(id.clone(), session);
        self.count.send_replace(state.sessions.len());
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.sdk.initialize_session(id, message).await
    }

    /// Returns `true` if the session exists and is not being closed. The SDK calls this method before it handles a
    /// request.
    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        let is_ending = self.state().sessions.get(id).is_none_or(|session| session.is_ending);
        Ok(!is_ending && self.sdk.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        let closed = self.sdk.close_session(id).await;
        self.forget(id);
        closed
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.has_begun(id);
        self.sdk.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.has_begun(id);
        self.sdk.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.has_begun(id);
        self.sdk.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.sdk.resume(id, last_event_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(all: usize, idle: Duration) -> Arc<Sessions> {
        Arc::new(Sessions::new(SessionLimits { all, of_a_client: all, idle }))
    }

    #[tokio::test(start_paused = true)]
    async fn session_without_a_message_after_initialize_ends_early() {
        let sessions = sessions(9, HANDSHAKE * 10);
        let (silent, _one) = sessions.create_session().await.unwrap();
        let (begun, _other) = sessions.create_session().await.unwrap();
        sessions.has_begun(&begun);
        tokio::time::advance(HANDSHAKE - Duration::from_millis(1)).await;
        assert_eq!(sessions.take_idle(), []);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(sessions.take_idle(), [silent]);
        tokio::time::advance(HANDSHAKE * 9).await;
        assert!(sessions.take_idle().contains(&begun));
    }

    #[tokio::test(start_paused = true)]
    async fn session_without_a_message_after_initialize_is_replaced_first() {
        let sessions = sessions(2, HANDSHAKE * 10);
        let (begun, _one) = sessions.create_session().await.unwrap();
        sessions.has_begun(&begun);
        tokio::time::advance(Duration::from_secs(1)).await;
        let (silent, _other) = sessions.create_session().await.unwrap();
        assert!(matches!(sessions.reserve(&None), Room::After(id) if id == silent));
    }

    /// Regression test. A new request must be refused while its idle session is being closed. An accepted request would
    /// be aborted.
    #[tokio::test]
    async fn request_during_the_close_of_a_session_is_refused() {
        let sessions = sessions(1, Duration::ZERO);
        let (id, _transport) = sessions.create_session().await.unwrap();
        {
            let used = sessions.enter(&id, None);
            assert!(matches!(used, Ok(Some(_))));
            sessions.close_idle().await;
            assert!(sessions.has_session(&id).await.unwrap(), "it is used");
        }
        assert_eq!(sessions.take_idle(), std::slice::from_ref(&id));
        assert!(matches!(sessions.enter(&id, None), Ok(None)));
        assert!(!sessions.has_session(&id).await.unwrap());
        assert!(matches!(sessions.enter(&id, Some("another")), Err(SessionOwnerMismatch)));
        assert!(matches!(sessions.reserve(&None), Room::After(_)), "it is still there");
        // The closing future was dropped, so the next call closes the session.
        sessions.close_idle().await;
        assert!(matches!(sessions.reserve(&None), Room::Free(_)));
    }
}
