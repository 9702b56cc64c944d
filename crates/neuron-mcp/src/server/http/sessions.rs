//! The sessions of an HTTP server: how many there are, whose they are, and when they end.
//!
//! The SDK's manager keeps what a session is; it ends one some time after the last message, whether or not a
//! call still runs or its client listens. Here a session ends once nobody uses it.

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

/// How long a session may take to hear that it ends.
const CLOSING: Duration = Duration::from_secs(1);

/// All sessions of a server.
pub(super) struct Sessions {
    sdk: LocalSessionManager,
    max: usize,
    idle_timeout: Duration,
    state: Mutex<State>,
    /// How many there are, for who waits for their end.
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    sessions: HashMap<SessionId, Session>,
    /// How many are about to begin.
    reserved: usize,
}

struct Session {
    owner: Option<Arc<str>>,
    /// How many requests and streams are open.
    uses: usize,
    /// When the last of them ended.
    used: Instant,
    /// It is being closed: nobody can use it any more.
    is_ending: bool,
}

impl Sessions {
    pub(super) fn new(max: usize, idle_timeout: Duration) -> Self {
        let mut sdk = LocalSessionManager::default();
        sdk.session_config.keep_alive = None;
        Self { sdk, max, idle_timeout, state: Mutex::default(), count: watch::Sender::new(0) }
    }

    /// Room for one more session; nothing if there are as many as there may be.
    pub(super) fn reserve(self: &Arc<Self>) -> Option<Reservation> {
        let mut state = self.state();
        if state.sessions.len() + state.reserved >= self.max {
            return None;
        }
        state.reserved += 1;
        Some(Reservation(self.clone()))
    }

    /// Says who began a session.
    pub(super) fn begun(&self, id: &str, owner: Option<Arc<str>>) {
        if let Some(session) = self.state().sessions.get_mut(id) {
            session.owner = owner;
        }
    }

    /// Uses a session, which keeps it from ending. Nothing if there is none of this id.
    ///
    /// # Errors
    ///
    /// Another began it.
    pub(super) fn enter(
        self: &Arc<Self>,
        id: &str,
        by: Option<&str>,
    ) -> Result<Option<SessionUse>, AnothersSession> {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(id) else {
            return Ok(None);
        };
        if session.owner.as_deref() != by {
            return Err(AnothersSession);
        }
        if session.is_ending {
            return Ok(None);
        }
        session.uses += 1;
        Ok(Some(SessionUse { sessions: self.clone(), id: id.into() }))
    }

    /// Ends the sessions that nobody has used for long.
    pub(super) async fn close_idle(&self) {
        let idle = self.take_idle();
        let closing = idle.iter().map(|id| async move {
            tracing::debug!(session = %id, "a session ends because nobody uses it");
            // One that does not listen ends by what it is served with, at the server's end.
            let _ = tokio::time::timeout(CLOSING, self.close_session(id)).await;
        });
        future::join_all(closing).await;
    }

    /// Chooses the sessions that nobody has used for long. Nobody can use them from now on.
    fn take_idle(&self) -> Vec<SessionId> {
        let mut state = self.state();
        let is_idle = |one: &Session| one.uses == 0 && one.used.elapsed() >= self.idle_timeout;
        // Also one that was chosen before: whoever closed it may have been dropped.
        let idle = state.sessions.iter_mut().filter(|(_, one)| is_idle(one));
        let taken = idle.map(|(id, session)| {
            session.is_ending = true;
            id.clone()
        });
        taken.collect()
    }

    /// Waits until there is none.
    pub(super) async fn ended(&self) {
        // An error says that nobody counts any more, which cannot be: `self` does.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    fn forget(&self, id: &SessionId) {
        let mut state = self.state();
        state.sessions.remove(id);
        self.count.send_replace(state.sessions.len());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Another began the session.
pub(super) struct AnothersSession;

/// Room for a session that is about to begin.
pub(super) struct Reservation(Arc<Sessions>);

impl Drop for Reservation {
    fn drop(&mut self) {
        self.0.state().reserved -= 1;
    }
}

/// Somebody uses a session.
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
        let session = Session { owner: None, uses: 0, used: Instant::now(), is_ending: false };
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

    /// Whether a request may use it: the SDK serves those of sessions that there are.
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
        self.sdk.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.sdk.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
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

    /// A request that came while its session was about to be closed for idleness was let in, and its call broke off.
    #[tokio::test]
    async fn who_comes_while_a_session_ends_finds_none() {
        let sessions = Arc::new(Sessions::new(1, Duration::ZERO));
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
        assert!(matches!(sessions.enter(&id, Some("another")), Err(AnothersSession)));
        assert!(sessions.reserve().is_none(), "it is still there");
        // Whoever closed it went away: the next one does.
        sessions.close_idle().await;
        assert!(sessions.reserve().is_some());
    }
}
