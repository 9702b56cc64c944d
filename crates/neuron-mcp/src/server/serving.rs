//! [`Serving`], the state that the connections of a running server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use neuron_types::McpError;
use tokio_util::task::TaskTracker;

use super::http::shutdown::Shutdown;
use super::mcp_server::McpServer;
use super::rounds::Rounds;

impl McpServer {
    /// Creates the state that the connections of a running server share. `shutdown` has the steps of the shutdown of an
    /// HTTP server.
    ///
    /// # Errors
    ///
    /// Returns [`McpError::Initialization`] if the key of [`McpServer::with_state_key`] is too short or the system
    /// returns no random numbers.
    pub(super) fn serving(&self, shutdown: Option<Shutdown>) -> Result<Arc<Serving>, McpError> {
        Ok(Arc::new(Serving::new(self.clone(), shutdown)?))
    }
}

/// The state that the connections of a running server share.
pub(super) struct Serving {
    /// Settings of the server.
    pub(super) server: McpServer,
    /// Random prefix of the call ids, so that ids of different processes differ.
    call_prefix: String,
    /// Number of call ids that were created.
    calls: AtomicU64,
    /// Encodes the state that clients store for calls that request input.
    pub(super) rounds: Rounds,
    /// The calls that are or may become tasks. Closed, so that waiting for their end is possible at any time.
    pub(super) workers: TaskTracker,
    /// The steps of the shutdown of an HTTP server. `None` over a pair of streams.
    shutdown: Option<Shutdown>,
}

impl Serving {
    /// Creates the state that the connections of `server` share. Returns the errors of [`McpServer::serving`].
    fn new(server: McpServer, shutdown: Option<Shutdown>) -> Result<Self, McpError> {
        let call_prefix = URL_SAFE_NO_PAD.encode(random::<12>()?);
        let key = match &server.state_key {
            Some(key) => key.clone(),
            None => random::<32>()?.to_vec(),
        };
        let rounds = Rounds::new(key, server.state_ttl)?;
        let (calls, workers) = (AtomicU64::default(), TaskTracker::new());
        workers.close();
        Ok(Self { server, call_prefix, calls, rounds, workers, shutdown })
    }

    /// Runs `work` independently of the request that called it, until it ends or the server has shut down.
    pub(super) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let serving = Arc::clone(self);
        let shutdown = async move {
            match &serving.shutdown {
                Some(shutdown) => shutdown.proceed().await,
                None => std::future::pending().await,
            }
        };
        self.workers.spawn(async move {
            tokio::select! {
                () = work => {}
                () = shutdown => {}
            }
        });
    }

    /// Returns a unique id for a call.
    pub(super) fn next_call_id(&self) -> String {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("mcp-{}-{number}", self.call_prefix)
    }
}

/// Returns unpredictable random bytes. Returns an error if the system has no random numbers.
pub(super) fn random<const N: usize>() -> Result<[u8; N], McpError> {
    let mut bytes = [0; N];
    let random = rustls::crypto::ring::default_provider().secure_random;
    let failed = |_| McpError::Initialization("the system returned no random numbers".to_owned());
    random.fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
