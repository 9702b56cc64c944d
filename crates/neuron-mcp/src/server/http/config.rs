//! Configuration of an HTTP server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::authenticate::{Authenticate, HttpIdentity, HttpRefusal, HttpRequestHead};
use super::bearer::BearerToken;
use super::protected_resource::{ProtectedResource, TokenVerifier};

/// The configuration of an HTTP server.
///
/// The defaults fit a server for programs on the same machine. Only requests to a loopback name are accepted, and none
/// from web pages.
///
/// # Example: a server for others, behind a proxy that speaks TLS
///
/// ```
/// use neuron_mcp::{HttpIdentity, HttpRefusal, HttpServerConfig};
///
/// let config = HttpServerConfig::new("0.0.0.0:8080".parse()?)
///     .allowed_hosts(["tools.example.com"])
///     .authenticate(|request| async move {
///         let key = request.headers.get("x-api-key").and_then(|key| key.to_str().ok());
///         match key {
///             Some("of-alice") => Ok(HttpIdentity::new("alice")),
///             _ => Err(HttpRefusal::unauthorized()),
///         }
///     });
/// # let _ = config;
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HttpServerConfig {
    pub(super) addr: SocketAddr,
    pub(super) path: String,
    /// `None` allows only loopback names.
    pub(super) allowed_hosts: Option<Vec<String>>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) max_body_bytes: usize,
    pub(super) max_head_bytes: usize,
    pub(super) head_timeout: Duration,
    pub(super) read_timeout: Duration,
    pub(super) write_timeout: Duration,
    pub(super) max_connections: usize,
    pub(super) max_connections_per_address: usize,
    pub(super) max_sessions: usize,
    pub(super) max_sessions_per_client: usize,
    pub(super) session_idle_timeout: Duration,
    pub(super) shutdown_grace: Duration,
    pub(super) authenticate: Option<Authenticate>,
    /// Set by [`HttpServerConfig::authorize`], together with `authenticate`.
    pub(super) resource: Option<Arc<ProtectedResource>>,
}

impl HttpServerConfig {
    /// Creates a configuration with a bind address. Port 0 selects a free port.
    ///
    /// For an address that is not loopback, [`allowed_hosts`](Self::allowed_hosts) must be set.
    #[must_use]
    pub fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            path: "/mcp".to_owned(),
            allowed_hosts: None,
            allowed_origins: Vec::new(),
            max_body_bytes: 4 * 1024 * 1024,
            max_head_bytes: 64 * 1024,
            head_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            max_connections: 1024,
            max_connections_per_address: 256,
            max_sessions: 1024,
            max_sessions_per_client: 128,
            session_idle_timeout: Duration::from_secs(30 * 60),
            shutdown_grace: Duration::from_secs(10),
            authenticate: None,
            resource: None,
        }
    }

    /// Sets the path of the endpoint. Requests to other paths are refused (404). Defaults to `/mcp`.
    ///
    /// Applies only to a standalone server. The path of a service is set in the other server's routes.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets the allowed host names, as sent in the `Host` header. A name without a port is allowed with every port. `*`
    /// allows every name. A request to another name is refused (403).
    ///
    /// This check prevents DNS rebinding, by which a web page reaches a server on its visitor's machine. The page can
    /// make its own name resolve to that machine, but the browser sends this name in the request. Allow every name only
    /// if every request is authenticated.
    ///
    /// Defaults to `localhost`, `127.0.0.1` and `[::1]`, and the bind address if it is a loopback address.
    #[must_use]
    pub fn allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = Some(hosts.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the origins of web pages that may use the server, such as `https://app.example.com` or, for every port,
    /// `http://localhost:*`. Responses to them have CORS headers. A request with another `Origin` is refused (403).
    ///
    /// Defaults to none. Programs other than browsers send no `Origin` and are not affected.
    #[must_use]
    pub fn allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_origins = origins.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the maximum length of a request body in bytes. Longer bodies are refused (413). Defaults to 4 MiB.
    #[must_use]
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets the maximum length of a request head (request line and headers) in bytes, at least 8 KiB. Longer heads are
    /// refused (431). Defaults to 64 KiB. Applies only to a standalone server.
    #[must_use]
    pub fn max_head_bytes(mut self, bytes: usize) -> Self {
        self.max_head_bytes = bytes.max(8 * 1024);
        self
    }

    /// Sets the timeout for reading the head of a request, from its first byte or since the last request. The
    /// connection is closed after that. Defaults to 10 seconds, and is limited by [`read_timeout`](Self::read_timeout).
    /// Applies only to a standalone server.
    #[must_use]
    pub fn head_timeout(mut self, timeout: Duration) -> Self {
        self.head_timeout = timeout;
        self
    }

    /// Sets the timeout for reading the body of a request. Defaults to 30 seconds.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = timeout;
        self
    }

    /// Sets the timeout for a client that reads none of its data. The connection is closed after that. Slow readers and
    /// idle connections are not affected. Defaults to 60 seconds. Applies only to a standalone server.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Sets the maximum number of concurrent connections, at least 1. Further connections wait. A client may use
    /// several, and one for as long as it listens for notifications. Defaults to 1024. Applies only to a standalone
    /// server.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// Sets the maximum number of connections from one address, at least 1. IPv6 addresses with the same first 64 bits
    /// count as one address. For a further connection, the oldest connection without a request is closed. If all
    /// connections carry a request, the new connection is closed. Behind a proxy all connections have the proxy's
    /// address. Defaults to 256. Applies only to a standalone server.
    #[must_use]
    pub fn max_connections_per_address(mut self, connections: usize) -> Self {
        self.max_connections_per_address = connections.max(1);
        self
    }

    /// Sets the maximum number of concurrent sessions. For a further session, the session that was idle for the longest
    /// time ends. If all sessions are in use, the client is refused (503). Defaults to 1024.
    ///
    /// Clients of protocol version 2026-07-28 have no sessions.
    #[must_use]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Sets the maximum number of concurrent sessions for each client, at least 1. A client is an
    /// [identity](HttpIdentity), or an address if requests are not authenticated. For a further session, the client's
    /// session that was idle for the longest time ends. Defaults to 128.
    ///
    /// Behind a proxy without authentication all clients have the proxy's address. Set this limit as high as
    /// [`max_sessions`](Self::max_sessions) there. A service in another server has the address only if that server adds
    /// a [`SocketAddr`] to the request's extensions.
    #[must_use]
    pub fn max_sessions_per_client(mut self, sessions: usize) -> Self {
        self.max_sessions_per_client = sessions.max(1);
        self
    }

    /// Sets the idle timeout of a session without a request and without a listening stream. Later requests of its
    /// client are refused (404), and the client begins a new session. Defaults to 30 minutes. A session whose client
    /// has sent nothing after `initialize` ends after at most 30 seconds.
    ///
    /// A [service](crate::McpServer::http_service) in another server ends such sessions when another session begins.
    #[must_use]
    pub fn session_idle_timeout(mut self, timeout: Duration) -> Self {
        self.session_idle_timeout = timeout;
        self
    }

    /// Sets how long running calls may continue after shutdown. They are then cancelled. Defaults to 10 seconds.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Sets the function that authenticates every request. By default every request is accepted.
    ///
    /// The function is called after the check of the host names and before the body is read. Tools find the
    /// [`HttpIdentity`] and its values with [`McpPeer::extension`](crate::McpPeer::extension).
    ///
    /// A session belongs to the identity that began it. For other identities it does not exist (404).
    #[must_use]
    pub fn authenticate<F, Fut>(mut self, authenticate: F) -> Self
    where
        F: Fn(HttpRequestHead) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HttpIdentity, HttpRefusal>> + Send + 'static,
    {
        self.authenticate = Some(Authenticate::new(authenticate));
        self.resource = None;
        self
    }

    /// Accepts only requests with an access token for this server (OAuth 2.1), as the MCP specification defines for
    /// protected resources. See [`ProtectedResource`] for the checks and an example. Replaces
    /// [`authenticate`](Self::authenticate).
    #[must_use]
    pub fn authorize(
        self,
        resource: ProtectedResource,
        verifier: impl TokenVerifier + 'static,
    ) -> Self {
        let resource = Arc::new(resource);
        let checks = Arc::new((resource.clone(), verifier));
        let config = self.authenticate(move |request| {
            let checks = checks.clone();
            async move { checks.0.check(&request.headers, &checks.1).await }
        });
        Self { resource: Some(resource), ..config }
    }

    /// Accepts only requests with `Authorization: Bearer <token>`. All requests have the identity `bearer`. The time of
    /// the comparison reveals nothing about the token.
    ///
    /// Sufficient for your own programs. A service for others needs tokens that expire: see
    /// [`authorize`](Self::authorize).
    #[must_use]
    pub fn bearer_token(self, token: impl Into<String>) -> Self {
        let token = BearerToken::new(&token.into());
        self.authenticate(move |request| std::future::ready(token.check(&request.headers)))
    }
}

/// Uses a free port of 127.0.0.1.
impl Default for HttpServerConfig {
    fn default() -> Self {
        Self::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }
}
