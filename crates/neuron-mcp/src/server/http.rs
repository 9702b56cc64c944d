//! A server over Streamable HTTP, by itself or within another HTTP server.

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
    /// Serves over HTTP at an address, for programs on this machine, until it is shut down: the endpoint is
    /// `/mcp`. Port 0 is any that is free; see [`bind_http`](Self::bind_http) to learn which.
    ///
    /// # Errors
    ///
    /// [`McpError::Connection`] if nothing can listen there, and [`McpError::Initialization`] for an address
    /// that others can reach: for those, say by [`bind_http`](Self::bind_http) who may come.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server at once.
    pub async fn serve_http(&self, addr: SocketAddr) -> Result<(), McpError> {
        self.bind_http(HttpServerConfig::new(addr)).await?.serve().await
    }

    /// Listens for HTTP requests. Nothing is answered until [`serve`](McpHttpServer::serve).
    ///
    /// # Errors
    ///
    /// [`McpError::Connection`] if nothing can listen there, and [`McpError::Initialization`] for settings that
    /// make no sense, or if others can reach the address and no
    /// [`allowed_hosts`](HttpServerConfig::allowed_hosts) are named.
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

    /// The server as a service within one's own HTTP server, hyper's or axum's. The address, the path and the
    /// limits on connections and heads do not apply; all else does, the check of names too: unless only this
    /// machine reaches your server, name the hosts.
    ///
    /// Sessions that nobody uses end when another begins, and not before: nothing runs here between requests.
    ///
    /// It shuts down by [`with_shutdown`](Self::with_shutdown): streams on which clients only listen end at
    /// once, so that your server's own graceful shutdown does not wait for them. A call that asked its client
    /// something gets the answer by another request: it can finish only while your server still takes those.
    ///
    /// # Errors
    ///
    /// [`McpError::Initialization`] for settings that make no sense.
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

/// A server that listens, and has not begun to answer: see [`McpServer::bind_http`].
///
/// Speaks HTTP/1.1 without TLS. Where others can listen in, put a proxy before it that speaks TLS, or use
/// [`McpServer::http_service`] in a server that does.
#[derive(Debug)]
pub struct McpHttpServer {
    listener: TcpListener,
    addr: SocketAddr,
    service: McpHttpService,
    config: HttpServerConfig,
}

impl McpHttpServer {
    /// On which address it listens, with the port that was free.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where the endpoint is, for a client on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        let ip = match self.addr.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        format!("http://{}{}", SocketAddr::new(ip, self.addr.port()), self.config.path)
    }

    /// What shuts this server down once it is cancelled. So does the token of
    /// [`McpServer::with_shutdown`].
    #[must_use]
    pub fn shutdown_token(&self) -> CancellationToken {
        self.service.shutdown().asked().clone()
    }

    /// Answers requests until the server is shut down.
    ///
    /// Then nothing new begins, and streams on which clients only listen end. Calls that run may finish within
    /// [`shutdown_grace`](HttpServerConfig::shutdown_grace): their clients can still answer what they ask. After
    /// that they are cancelled, and a moment later all connections and sessions end.
    ///
    /// # Errors
    ///
    /// None at present. Connections that fail, and a system that has no room for more, do not end a server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server at once, with all connections, sessions and calls.
    pub async fn serve(self) -> Result<(), McpError> {
        connections::serve(self.listener, self.service, &self.config).await;
        Ok(())
    }
}
