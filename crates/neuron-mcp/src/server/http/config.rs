//! What can be set for a server over HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::authenticate::{Authenticate, HttpIdentity, HttpRefusal, HttpRequestHead};
use super::bearer::BearerToken;
use super::protected_resource::{ProtectedResource, TokenVerifier};

/// How a server is reached over HTTP, and what it lets in.
///
/// The defaults are those of a server for programs on the same machine: only requests to a loopback name, and
/// none that a web page sent.
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
    /// Loopback names if none are named.
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
    /// A server that listens on an address; port 0 is any that is free.
    ///
    /// For an address that others can reach, [`allowed_hosts`](Self::allowed_hosts) must be named.
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

    /// Sets the path of the endpoint; others are not found. Default: `/mcp`.
    ///
    /// Only for a server that listens itself: a service within another server is where that one puts it.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets by which names clients may reach the server: what stands in the `Host` of a request. A name without
    /// a port is allowed with every port; `*` allows every name. A request to another name is refused (403).
    ///
    /// This is what keeps a web page from reaching a server on its visitor's machine: by DNS rebinding a page
    /// can make its own name lead there, but it cannot make the browser send another name. Allow every name
    /// only if every request is authenticated.
    ///
    /// Default: `localhost`, `127.0.0.1` and `[::1]`, and the address on which the server listens if that is a
    /// loopback address.
    #[must_use]
    pub fn allowed_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts = Some(hosts.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the origins of web pages that may use the server, such as `https://app.example.com` or, for every
    /// port, `http://localhost:*`. Their browsers are told so (CORS). A request that a page of another origin
    /// sent, one with another `Origin`, is refused (403).
    ///
    /// Default: none. Programs that are no browsers send no `Origin` and are not concerned.
    #[must_use]
    pub fn allowed_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_origins = origins.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how long a request's body may be, in bytes; a longer one is refused (413). Default: 4 MiB.
    #[must_use]
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets how long the head of a request may be, its first line and headers, in bytes; a longer one is
    /// refused (431). At least 8 KiB. Default: 64 KiB. Only for a server that listens itself.
    #[must_use]
    pub fn max_head_bytes(mut self, bytes: usize) -> Self {
        self.max_head_bytes = bytes.max(8 * 1024);
        self
    }

    /// Sets the time within which the head of a request must come, from its first byte or since the last request. The
    /// connection is closed after that. Default: 10 seconds, and at most the [`read_timeout`](Self::read_timeout). Only for
    /// a server that listens itself.
    #[must_use]
    pub fn head_timeout(mut self, timeout: Duration) -> Self {
        self.head_timeout = timeout;
        self
    }

    /// Sets the time within which the body of a request must come. Default: 30 seconds.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = timeout;
        self
    }

    /// Sets how long a client may read nothing of what it is sent: then its connection is closed. One that
    /// reads slowly, or is sent nothing, is not concerned. Default: 60 seconds. Only for a server that listens
    /// itself.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Sets how many connections are served at once, at least one; others wait. A client may use several, and
    /// one for as long as it listens to what the server has to tell. Default: 1024. Only for a server that
    /// listens itself.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.max(1);
        self
    }

    /// Sets the maximum number of connections from one address, at least one. For IPv6 all addresses with the same first
    /// 64 bits are one. If another one comes, the oldest that carries no request is closed. If all carry one, the new
    /// connection is. Behind a proxy all connections have the proxy's address. Default: 256. Only for a server that listens
    /// itself.
    #[must_use]
    pub fn max_connections_per_address(mut self, connections: usize) -> Self {
        self.max_connections_per_address = connections.max(1);
        self
    }

    /// Sets the maximum number of sessions at once. If another one begins, the one ends that was unused for the longest
    /// time. If all are used, the client is refused (503). Default: 1024.
    ///
    /// Clients that speak the protocol's version 2026-07-28 have no sessions.
    #[must_use]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Sets the maximum number of sessions at once for each client, at least one. A client is an
    /// [identity](HttpIdentity), or an address if requests are not authenticated. If another one begins, its own ends
    /// that was unused for the longest time. Default: 128.
    ///
    /// Behind a proxy without authentication all clients have the proxy's address. Set it as high as
    /// [`max_sessions`](Self::max_sessions) there. A service within another server knows an address only if that one
    /// puts a [`SocketAddr`] into the request's extensions.
    #[must_use]
    pub fn max_sessions_per_client(mut self, sessions: usize) -> Self {
        self.max_sessions_per_client = sessions.max(1);
        self
    }

    /// Sets after which time a session ends that nobody uses: without a request, and without a stream on which
    /// its client listens. Its client is told (404), and begins anew. Default: 30 minutes. A session whose client has
    /// sent nothing after `initialize` ends after 30 seconds at most.
    ///
    /// A [service](crate::McpServer::http_service) within another server ends such sessions when another begins.
    #[must_use]
    pub fn session_idle_timeout(mut self, timeout: Duration) -> Self {
        self.session_idle_timeout = timeout;
        self
    }

    /// Sets how long calls may still run once the server shuts down; then they are cancelled. Default: 10
    /// seconds.
    #[must_use]
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.shutdown_grace = grace;
        self
    }

    /// Sets who decides on every request whether it is let in, and in whose name. Default: everybody is.
    ///
    /// It is asked once the names are checked and before the body is read. Tools find the [`HttpIdentity`], and
    /// what was added to it, by [`McpPeer::extension`](crate::McpPeer::extension).
    ///
    /// A session belongs to the identity that began it. For others it does not exist (404).
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

    /// Lets in only requests with an access token for this server (OAuth 2.1), as the MCP specification has it for
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

    /// Lets in only who knows a token: requests with `Authorization: Bearer <token>`. All have one identity,
    /// `bearer`. The comparison takes the same time whatever is wrong.
    ///
    /// Enough for one's own programs. A service for others needs tokens that expire: see
    /// [`authorize`](Self::authorize).
    #[must_use]
    pub fn bearer_token(self, token: impl Into<String>) -> Self {
        let token = BearerToken::new(&token.into());
        self.authenticate(move |request| std::future::ready(token.check(&request.headers)))
    }
}

/// On a free port of 127.0.0.1.
impl Default for HttpServerConfig {
    fn default() -> Self {
        Self::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
    }
}
