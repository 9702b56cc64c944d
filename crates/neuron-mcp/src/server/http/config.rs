//! [`HttpServerConfig`], the configuration of an HTTP server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::authenticate::{Authenticate, HttpIdentity, HttpRefusal, HttpRequestHead};
use super::bearer::BearerToken;
use super::protected_resource::{ProtectedResource, TokenVerifier};

/// The configuration of an HTTP server.
///
/// With the defaults, only programs on the same machine can use the server. It then accepts only requests whose `Host`
/// header is a loopback name, and refuses requests of web pages.
///
/// # Example: a server for other machines, behind a TLS proxy
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
    /// Address to bind. Unused by a service in another HTTP server.
    pub(super) addr: SocketAddr,
    /// Path of the endpoint.
    pub(super) path: String,
    /// Allowed host names. `None` allows loopback names and the bind address.
    pub(super) allowed_hosts: Option<Vec<String>>,
    /// Origins of web pages that may send requests.
    pub(super) allowed_origins: Vec<String>,
    /// Maximum length of a request body, in bytes.
    pub(super) max_body_bytes: usize,
    /// Maximum length of a request line with its headers, in bytes.
    pub(super) max_head_bytes: usize,
    /// Timeout for reading a request body.
    pub(super) read_timeout: Duration,
    /// Timeout for a write without progress.
    pub(super) write_timeout: Duration,
    /// Maximum number of concurrent connections.
    pub(super) max_connections: usize,
    /// Maximum number of concurrent connections from one IP address.
    pub(super) max_connections_per_address: usize,
    /// Maximum number of concurrent sessions.
    pub(super) max_sessions: usize,
    /// Maximum number of concurrent sessions of one identity or IP address.
    pub(super) max_sessions_per_client: usize,
    /// Time after which an unused session ends.
    pub(super) session_idle_timeout: Duration,
    /// Time for which running calls may continue after shutdown is requested.
    pub(super) shutdown_grace: Duration,
    /// The user's authentication function. `None` accepts every request.
    pub(super) authenticate: Option<Authenticate>,
    /// Settings for OAuth access tokens. Set by [`HttpServerConfig::authorize`], which also sets `authenticate`. `None`
    /// if no OAuth token is required.
    pub(super) resource: Option<Arc<ProtectedResource>>,
}

impl HttpServerConfig {
    /// Creates a configuration that binds an address. Port 0 selects a free port.
    ///
    /// If the address is not a loopback address, set [`allowed_hosts`](Self::allowed_hosts) too. Otherwise
    /// [`McpServer::bind_http`](crate::McpServer::bind_http) returns an error.
    #[must_use]
    pub fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            path: "/mcp".to_owned(),
            allowed_hosts: None,
            allowed_origins: Vec::new(),
            max_body_bytes: 4 * 1024 * 1024,
            max_head_bytes: 64 * 1024,
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

    /// Sets the path of the endpoint, which must start with `/`. Requests for other paths are refused (404). Defaults
    /// to `/mcp`.
    ///
    /// Applies only to a standalone server. For a service in another HTTP server, set the path in the routes of that
    /// server.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets the host names that a request may have in its `Host` header. A request for another name is refused (403).
    ///
    /// A name without a port is allowed with every port. The name `*` allows every name. Allow every name only if every
    /// request is authenticated.
    ///
    /// This check prevents DNS rebinding, an attack by which a web page reaches a server on the machine of its visitor.
    /// The page makes its own host name resolve to that machine. The browser sends this host name in the request, so
    /// the check refuses the request.
    ///
    /// Defaults to `localhost`, `127.0.0.1` and `[::1]`. The bind address is always allowed in addition, unless it is
    /// unspecified such as `0.0.0.0`.
    #[must_use]
    pub fn allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = Some(hosts.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the origins of web pages that may send requests, such as `https://app.example.com`. In an origin such as
    /// `http://localhost:*`, the `*` allows every port. By default no origin is allowed.
    ///
    /// Responses to an allowed origin have CORS headers. A request with another `Origin` header is refused (403).
    /// Requests without this header are not affected, because only browsers send it.
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
    /// refused (431). Defaults to 64 KiB.
    ///
    /// Applies only to a standalone server.
    #[must_use]
    pub fn max_head_bytes(mut self, bytes: usize) -> Self {
        self.max_head_bytes = bytes.max(8 * 1024);
        self
    }

    /// Sets the maximum time in which the body of a request must be received completely. Slower requests are refused
    /// (408). Defaults to 30 seconds.
    ///
    /// A standalone server also closes a connection that does not send a complete request head within this time or 10
    /// seconds.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = timeout;
        self
    }

    /// Sets the timeout for a client that does not read its responses. A connection is closed if bytes of a response
    /// are pending and none can be written for this time. Clients that read slowly and idle connections are not
    /// affected. Defaults to 60 seconds.
    ///
    /// Applies only to a standalone server.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Sets the maximum number of concurrent connections, at least 1. A further connection waits until an open
    /// connection ends. Defaults to 1024.
    ///
    /// A client may use several connections. A client that listens for notifications occupies one connection
    /// permanently.
    ///
    /// Applies only to a standalone server.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// Sets the maximum number of connections from one IP address, at least 1. IPv6 addresses with the same first 64
    /// bits count as one address. Defaults to 256.
    ///
    /// If an address has reached the limit, its next connection replaces its oldest connection without a running
    /// request. If all its connections have running requests, the next connection is closed.
    ///
    /// Behind a proxy, all connections have the address of the proxy. Applies only to a standalone server.
    #[must_use]
    pub fn max_connections_per_address(mut self, connections: usize) -> Self {
        self.max_connections_per_address = connections.max(1);
        self
    }

    /// Sets the maximum number of concurrent sessions. Defaults to 1024.
    ///
    /// If the limit is reached, a new session replaces an idle session. Idle sessions without a message after
    /// `initialize` are replaced first, and then the session that was idle for the longest time. If all sessions are in
    /// use, the new session is refused (503).
    ///
    /// Clients of protocol version 2026-07-28 and later have no sessions.
    #[must_use]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Sets the maximum number of concurrent sessions of one client, at least 1. A client is identified by its
    /// [`HttpIdentity`], or by its IP address if requests are not authenticated. Defaults to 128.
    ///
    /// If the limit is reached, a new session replaces an idle session of the client. Idle sessions without a message
    /// after `initialize` are replaced first, and then the session that was idle for the longest time. If all sessions
    /// of the client are in use, the new session is refused (503).
    ///
    /// Behind a proxy without authentication, all clients have the address of the proxy. In this case set the limit to
    /// the value of [`max_sessions`](Self::max_sessions). A service in another HTTP server knows the address only if
    /// that server adds a [`SocketAddr`] to the extensions of the request.
    #[must_use]
    pub fn max_sessions_per_client(mut self, sessions: usize) -> Self {
        self.max_sessions_per_client = sessions.max(1);
        self
    }

    /// Sets the time after which an idle session ends. A session is idle while it has no running request and no
    /// listening stream. Defaults to 30 minutes.
    ///
    /// Requests for a session that has ended are refused (404), and the client then begins a new session. The timeout
    /// is at most 30 seconds for a session in which the client has sent nothing after `initialize`.
    ///
    /// In a [service](crate::McpServer::http_service) for another HTTP server, idle sessions end only when another
    /// session begins.
    #[must_use]
    pub fn session_idle_timeout(mut self, timeout: Duration) -> Self {
        self.session_idle_timeout = timeout;
        self
    }

    /// Sets how long running calls and tasks may continue after shutdown before they are cancelled. Defaults to 10 seconds.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Sets the function that authenticates every request. By default every request is accepted. Replaces
    /// [`authorize`](Self::authorize) and [`bearer_token`](Self::bearer_token).
    ///
    /// The function is called after the check of the host name and before the body is read. Tools can get the returned
    /// [`HttpIdentity`], and the values that were added to it, from [`McpPeer::extension`](crate::McpPeer::extension).
    ///
    /// A session belongs to the identity that began it. A request of another identity for the session is refused as if
    /// the session did not exist (404).
    #[must_use]
    pub fn authenticate<F, Fut>(mut self, authenticate: F) -> Self
    where
        F: Fn(HttpRequestHead) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HttpIdentity, HttpRefusal>> + Send + 'static,
    {
        self.authenticate = Some(Authenticate::new(authenticate));
        // The metadata belongs to `authorize`, which this method replaces.
        self.resource = None;
        self
    }

    /// Accepts only requests with an OAuth 2.1 access token for this server, as the MCP specification requires of
    /// protected resources. Replaces [`authenticate`](Self::authenticate) and [`bearer_token`](Self::bearer_token).
    ///
    /// See [`ProtectedResource`] for the checks and an example.
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

    /// Accepts only requests with the header `Authorization: Bearer <token>`. All requests have the identity `bearer`.
    /// Replaces [`authenticate`](Self::authenticate) and [`authorize`](Self::authorize).
    ///
    /// The time that the comparison takes does not depend on the expected token.
    ///
    /// One shared token is sufficient for your own programs. A server for other people needs tokens that expire (see
    /// [`authorize`](Self::authorize)).
    #[must_use]
    pub fn bearer_token(self, token: impl Into<String>) -> Self {
        let token = BearerToken::new(&token.into());
        self.authenticate(move |request| std::future::ready(token.check(&request.headers)))
    }
}

/// Binds a free port of 127.0.0.1.
impl Default for HttpServerConfig {
    fn default() -> Self {
        Self::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }
}
