//! A server over Streamable HTTP, standalone or as a service in another HTTP server.

pub(super) mod authenticate;
mod bearer;
mod body;
mod config;
mod connections;
mod cors;
mod names;
mod patient;
mod peers;
mod protected_resource;
mod service;
mod sessions;
mod shutdown;

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
    /// Serves over HTTP at an address until the server is shut down. The endpoint is `/mcp`, for programs on this
    /// machine. Port 0 selects a free port. Use [`bind_http`](Self::bind_http) to get the selected port.
    ///
    /// # Errors
    ///
    /// Returns [`McpError::Connection`] if the address cannot be bound. Returns [`McpError::Initialization`] if the
    /// address is not a loopback address. For such an address use [`bind_http`](Self::bind_http) with the allowed
    /// hosts.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server at once.
    pub async fn serve_http(&self, addr: SocketAddr) -> Result<(), McpError> {
        self.bind_http(HttpServerConfig::new(addr)).await?.serve().await
    }

    /// Binds an HTTP server to an address. Requests are not handled until [`serve`](McpHttpServer::serve) is called.
    ///
    /// # Errors
    ///
    /// Returns [`McpError::Connection`] if the address cannot be bound. Returns [`McpError::Initialization`] if the
    /// settings are invalid, or if the address is not a loopback address and no
    /// [`allowed_hosts`](HttpServerConfig::allowed_hosts) are set.
    ///
    /// # Example: until Ctrl-C
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
        if !addr.ip().is_loopback() && config.allowed_hosts.is_none() {
            return Err(McpError::Initialization(format!(
                "others can reach a server at {addr}: say by which names, with \
                 `HttpServerConfig::allowed_hosts`, or listen on 127.0.0.1"
            )));
        }
        if !config.path.starts_with('/') {
            let path = config.path;
            return Err(McpError::Initialization(format!(
                "`{path}` is no path: it begins with `/`"
            )));
        }
        let service = McpHttpService::new(self, &config, Some(addr.ip()))?;
        let cannot = |error| McpError::Connection(format!("cannot listen on {addr}: {error}"));
        let listener = TcpListener::bind(addr).await.map_err(cannot)?;
        let addr = listener.local_addr().map_err(cannot)?;
        Ok(McpHttpServer { listener, addr, service, config })
    }

    /// Returns the server as a service for another HTTP server, such as hyper's or axum's. The address, the path and
    /// the limits on connections and request heads do not apply. All other settings apply, including the check of host
    /// names. If your server is reachable from other machines, set the allowed hosts.
    ///
    /// Idle sessions end when another session begins, because no background task runs between requests.
    ///
    /// The service is shut down with [`with_shutdown`](Self::with_shutdown). Listening streams of clients end at once,
    /// so that the graceful shutdown of your server does not wait for them. A call that waits for a client's response
    /// receives it through another request. It can finish only while your server still accepts requests.
    ///
    /// # Errors
    ///
    /// Returns [`McpError::Initialization`] if the settings are invalid.
    ///
    /// # Example: in a router of axum
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
        McpHttpService::new(self, &config, None)
    }
}

/// A bound server that does not handle requests yet. See [`McpServer::bind_http`].
///
/// Supports HTTP/1.1 without TLS. On an untrusted network, use a TLS proxy in front of it, or
/// [`McpServer::http_service`] in a server with TLS.
#[derive(Debug)]
pub struct McpHttpServer {
    listener: TcpListener,
    addr: SocketAddr,
    service: McpHttpService,
    config: HttpServerConfig,
}

impl McpHttpServer {
    /// Returns the local address, with the selected port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL of the endpoint, for a client on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        let ip = match self.addr.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        format!("http://{}{}", SocketAddr::new(ip, self.addr.port()), self.config.path)
    }

    /// Returns the token that shuts this server down. The token of [`McpServer::with_shutdown`] does the same.
    #[must_use]
    pub fn shutdown_token(&self) -> CancellationToken {
        self.service.shutdown().asked().clone()
    }

    /// Handles requests until the server is shut down.
    ///
    /// On shutdown, no new connection or session is accepted, and listening streams end. Running calls may finish
    /// within [`shutdown_grace`](HttpServerConfig::shutdown_grace), and their clients can still respond to their
    /// requests. After that the calls are cancelled. Shortly afterwards all connections and sessions end.
    ///
    /// # Errors
    ///
    /// Returns no error at present. Failed connections and a system without resources for more connections do not end
    /// the server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server at once, with all connections, sessions and calls.
    pub async fn serve(self) -> Result<(), McpError> {
        connections::serve(self.listener, self.service, &self.config).await;
        Ok(())
    }
}
