//! A server over Streamable HTTP, standalone or as a service in another HTTP server.

pub(super) mod authenticate;
mod bearer;
mod body;
mod config;
mod connections;
mod cors;
mod names;
mod peers;
mod protected_resource;
mod service;
mod sessions;
pub(super) mod shutdown;
mod write_timeout;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use neuron_types::McpError;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::mcp_server::McpServer;
pub use authenticate::{HttpIdentity, HttpRefusal, HttpRequestHead};
pub use body::McpHttpBody;
pub use config::HttpServerConfig;
pub use protected_resource::{ProtectedResource, TokenClaims, TokenVerifier};
pub use service::McpHttpService;

impl McpServer {
    /// Serves over HTTP at a loopback address until the server is shut down. The path of the endpoint is `/mcp`. Only
    /// programs on this machine can use the server.
    ///
    /// Port 0 selects a free port. To get the selected port, use [`bind_http`](Self::bind_http) instead.
    ///
    /// # Errors
    ///
    /// - [`McpError::Connection`] if the address cannot be bound.
    /// - [`McpError::Initialization`] if the address is not a loopback address. For such an address, use
    ///   [`bind_http`](Self::bind_http) with [`allowed_hosts`](HttpServerConfig::allowed_hosts).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server immediately, with all connections, sessions, calls and tasks.
    pub async fn serve_http(&self, addr: SocketAddr) -> Result<(), McpError> {
        self.bind_http(HttpServerConfig::new(addr)).await?.serve().await
    }

    /// Binds an HTTP server to an address. The server handles no requests until [`serve`](McpHttpServer::serve) is
    /// called.
    ///
    /// # Errors
    ///
    /// - [`McpError::Connection`] if the address cannot be bound.
    /// - [`McpError::Initialization`] if the settings are invalid.
    /// - [`McpError::Initialization`] if the address is not a loopback address, but no
    ///   [`allowed_hosts`](HttpServerConfig::allowed_hosts) are set.
    ///
    /// # Example: serve until Ctrl-C is pressed
    ///
    /// ```no_run
    /// use neuron_mcp::{HttpServerConfig, McpServer};
    /// use neuron_tool::ToolRegistry;
    ///
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = McpServer::new(ToolRegistry::new());
    /// let listening = server.bind_http(HttpServerConfig::new("127.0.0.1:8080".parse()?)).await?;
    /// println!("{}", listening.url());
    ///
    /// let shutdown = listening.shutdown_token();
    /// tokio::spawn(async move {
    ///     if tokio::signal::ctrl_c().await.is_ok() {
    ///         shutdown.cancel();
    ///     }
    /// });
    /// listening.serve().await?; // returns once all that runs has ended
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bind_http(&self, config: HttpServerConfig) -> Result<McpHttpServer, McpError> {
        let addr = config.addr;
        // The default hosts are loopback names, but other machines use other names for the server.
        if !addr.ip().is_loopback() && config.allowed_hosts.is_none() {
            return Err(McpError::Initialization(format!(
                "other machines can reach a server at {addr}: set its host names with \
                 `HttpServerConfig::allowed_hosts`, or listen on 127.0.0.1"
            )));
        }
        if !config.path.starts_with('/') {
            let path = config.path;
            return Err(McpError::Initialization(format!(
                "`{path}` is not a path: it must start with `/`"
            )));
        }
        let service = McpHttpService::new(self, &config, Some(addr.ip()))?;
        let cannot = |error| McpError::Connection(format!("cannot listen on {addr}: {error}"));
        let listener = TcpListener::bind(addr).await.map_err(cannot)?;
        // If the configured port is 0, the local address has the selected port.
        let addr = listener.local_addr().map_err(cannot)?;
        Ok(McpHttpServer { listener, addr, service, config })
    }

    /// Returns the server as a service for another HTTP server, such as hyper's or axum's.
    ///
    /// The settings for the address, the path, and the limits on connections and request heads do not apply. All other
    /// settings apply, including the check of host names. If your HTTP server is reachable from other machines, set the
    /// [allowed hosts](HttpServerConfig::allowed_hosts).
    ///
    /// Idle sessions end only when another session begins, because the service has no background task.
    ///
    /// To shut the service down, cancel the token of [`with_shutdown`](Self::with_shutdown) before you shut down your
    /// HTTP server. The listening streams of clients then end immediately, so a graceful shutdown of your server does
    /// not wait for them. Keep accepting requests while calls are running, because a client may respond to a call in a
    /// new request, or request the state of its task.
    ///
    /// # Errors
    ///
    /// Returns [`McpError::Initialization`] if the settings are invalid.
    ///
    /// # Example: a route in an axum router
    ///
    /// ```
    /// use neuron_mcp::{HttpServerConfig, McpServer};
    /// use neuron_tool::ToolRegistry;
    ///
    /// let server = McpServer::new(ToolRegistry::new());
    /// let service = server.http_service(HttpServerConfig::default())?;
    /// // axum::Router::new().nest_service("/mcp", service)
    /// # let _ = service;
    /// # Ok::<(), neuron_mcp::McpError>(())
    /// ```
    pub fn http_service(&self, config: HttpServerConfig) -> Result<McpHttpService, McpError> {
        // The other HTTP server binds the address, so the bind address is unknown here.
        McpHttpService::new(self, &config, None)
    }
}

/// An HTTP server that is bound to an address but does not handle requests yet. Created by [`McpServer::bind_http`].
///
/// Supports HTTP/1.1 without TLS. On an untrusted network, put a TLS proxy in front of the server, or use
/// [`McpServer::http_service`] in an HTTP server with TLS.
#[derive(Debug)]
pub struct McpHttpServer {
    /// The bound socket.
    listener: TcpListener,
    /// Bound address, with the selected port.
    addr: SocketAddr,
    service: McpHttpService,
    config: HttpServerConfig,
}

impl McpHttpServer {
    /// Returns the bound address. Its port is the selected port if the configuration has port 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL of the endpoint for a client on this machine. If the bind address is unspecified, such as
    /// `0.0.0.0`, the URL contains the loopback address.
    #[must_use]
    pub fn url(&self) -> String {
        let ip = match self.addr.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        format!("http://{}{}", SocketAddr::new(ip, self.addr.port()), self.config.path)
    }

    /// Returns the token that shuts this server down when cancelled. Cancelling the token of
    /// [`McpServer::with_shutdown`] has the same effect.
    #[must_use]
    pub fn shutdown_token(&self) -> CancellationToken {
        self.service.shutdown().asked().clone()
    }

    /// Handles requests until the server is shut down.
    ///
    /// A shutdown has these steps:
    ///
    /// 1. New sessions and requests are refused (503), and listening streams end. New connections are accepted only
    ///    while calls or tasks are running.
    /// 2. Running calls and tasks may continue for [`shutdown_grace`](HttpServerConfig::shutdown_grace). Clients can
    ///    still respond to requests of these calls, and send requests about their tasks.
    /// 3. Calls and tasks that still run are cancelled.
    /// 4. About two seconds later, all connections and sessions end.
    ///
    /// # Errors
    ///
    /// Currently never returns an error. The server continues after a failed connection, and if the system has no
    /// resources for more connections.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server immediately, with all connections, sessions and calls.
    pub async fn serve(self) -> Result<(), McpError> {
        connections::serve(self.listener, self.service, &self.config).await;
        Ok(())
    }
}
