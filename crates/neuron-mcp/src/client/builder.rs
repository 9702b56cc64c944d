//! The builder of a client, with its settings and handlers.

use std::path::PathBuf;
use std::time::Duration;

use neuron_types::McpError;
use tokio::io::{AsyncRead, AsyncWrite};

use super::McpClient;
use super::handlers::Handlers;
use super::http::HttpConnector;
use super::io::StreamConnector;
use super::program::StdioConnector;
use super::settings::{Settings, Shared};
use super::stdio::StdioOptions;
#[cfg(feature = "oauth")]
use crate::OAuthConfig;
use crate::{
    ElicitationHandler, HttpConfig, LogLevel, McpImplementation, McpRoot, McpVersion,
    SamplingHandler, StdioConfig, TraceContext,
};

/// A builder for an [`McpClient`].
///
/// # Example
///
/// ```no_run
/// use std::time::Duration;
/// use neuron_mcp::{McpClient, McpRoot, StdioConfig};
///
/// # async fn example() -> Result<(), neuron_mcp::McpError> {
/// let client = McpClient::builder()
///     .request_timeout(Duration::from_secs(20))
///     .roots(vec![McpRoot::new("file:///work")])
///     .connect_stdio(StdioConfig { command: "my-server".into(), ..Default::default() })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct McpClientBuilder {
    settings: Settings,
    handlers: Handlers,
    log_level: Option<LogLevel>,
    inherit_env: Vec<String>,
    cwd: Option<PathBuf>,
    #[cfg(feature = "oauth")]
    oauth: Option<OAuthConfig>,
}

impl McpClientBuilder {
    /// Sets the name and version that the client reports to servers. Default: `neuron` and the version of this crate.
    pub fn implementation(mut self, implementation: McpImplementation) -> Self {
        self.settings.implementation = implementation;
        self
    }

    /// Sets the supported versions of the protocol. The client uses the newest version that the server supports.
    /// Default: all.
    pub fn versions(mut self, versions: impl IntoIterator<Item = McpVersion>) -> Self {
        self.settings.versions = versions.into_iter().collect();
        self.settings.versions.sort_unstable_by(|a, b| b.cmp(a));
        self.settings.versions.dedup();
        self
    }

    /// Sets the maximum time until a server responds to a request. Each progress notification of the server restarts
    /// the time. Default: 60 seconds.
    ///
    /// The time is paused while this client handles a request of the server, for example while a user fills in a form.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.settings.request_timeout = limit;
        self
    }

    /// Sets the maximum duration of a request, regardless of progress. Also the maximum duration of a task that a server
    /// creates for a tool call. Default: 10 minutes.
    ///
    /// The time is paused while this client handles a request of the server.
    pub fn max_request_time(mut self, limit: Duration) -> Self {
        self.settings.max_request_time = limit;
        self
    }

    /// Sets the maximum time to connect, from the start of the server's program to the end of the handshake. Default:
    /// 30 seconds. If a server does not respond within a third of this time, at most 10 seconds, the client also offers the
    /// older handshake, and still accepts the late response. Set a longer time for a program that is downloaded at its
    /// first start, for example by `npx` or `uvx`.
    ///
    /// After the handshake, the client sends the log level and the subscriptions to the server, and waits up to 5
    /// seconds for the confirmation. The client is usable even if the server does not confirm in this time.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect_timeout = limit;
        self
    }

    /// Sets the maximum size in bytes of a message that the server sends. Default: 16 MiB.
    pub fn max_message_bytes(mut self, limit: usize) -> Self {
        self.settings.max_message_bytes = limit;
        self
    }

    /// Sets the handler through which servers may use a model. By default servers may not use a model.
    ///
    /// At most 8 requests of a server for sampling or elicitation are handled at the same time, and at most 60 within any
    /// 60 seconds. Further requests are refused. For one request, a server may require input at most 10 times (MCP since
    /// 2026-07-28).
    pub fn sampling(mut self, handler: impl SamplingHandler + 'static) -> Self {
        self.handlers.set_sampling(handler);
        self
    }

    /// Sets the handler through which servers may ask the user. By default servers may not ask the user.
    pub fn elicitation(mut self, handler: impl ElicitationHandler + 'static) -> Self {
        self.handlers.set_elicitation(handler);
        self
    }

    /// Sets the roots, which are the folders in which servers may work. By default, the client does not declare support
    /// for roots.
    ///
    /// With an empty list, the client declares support for roots and has none at first. [`McpClient::set_roots`] can
    /// add roots later.
    pub fn roots(mut self, roots: Vec<McpRoot>) -> Self {
        self.handlers.declare_roots(roots);
        self
    }

    /// Requests log messages of at least this level, if the server supports logging. By default, the server decides
    /// which messages it sends. A server of MCP 2026-07-28 sends none by default.
    pub fn log_level(mut self, level: LogLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Enables or disables reconnecting. If enabled, the next request restores a lost connection. Default: `true`.
    pub fn reconnect(mut self, reconnect: bool) -> Self {
        self.settings.reconnect = reconnect;
        self
    }

    /// Sets the function that returns the trace context of the current span. The client calls it inside the span of
    /// each request whose [`ToolContext`](neuron_types::ToolContext) has no [`TraceContext`]. By default, such requests
    /// carry no trace context.
    ///
    /// With the crate `neuron-otel`, pass its `current_trace_context`.
    pub fn trace_context(
        mut self,
        current: impl Fn() -> Option<TraceContext> + Send + Sync + 'static,
    ) -> Self {
        self.settings.propagation.read_with(current);
        self
    }

    /// Sets the function that makes the span of a server request part of the server's trace. It receives the span and
    /// the [`TraceContext`] of the request, before the span is entered. It is not called for requests without a
    /// [`TraceContext`]. By default, the span of a server request starts a new trace.
    ///
    /// With the crate `neuron-otel`, pass its `set_trace_parent`.
    pub fn trace_parent(
        mut self,
        set_parent: impl Fn(&tracing::Span, &TraceContext) + Send + Sync + 'static,
    ) -> Self {
        self.settings.propagation.write_with(set_parent);
        self
    }

    /// Lets a server in a child process inherit environment variables with these names from this process. By default
    /// the child process inherits only a short list of harmless variables, such as `PATH` and `HOME`.
    pub fn inherit_env<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.inherit_env.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the working directory of a server in a child process. Default: the working directory of this process.
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Enables OAuth 2.1 authorization for HTTP servers that require it. By default a connection to such a server
    /// fails.
    ///
    /// The time limits of this builder do not include the time that an authorization takes.
    #[cfg(feature = "oauth")]
    pub fn oauth(mut self, config: OAuthConfig) -> Self {
        self.oauth = Some(config);
        self
    }

    /// Starts a server as a child process and connects to it.
    ///
    /// # Errors
    ///
    /// - [`McpError::Connection`] if the program does not start, ends, or does not respond in time.
    /// - [`McpError::Initialization`] if the server supports none of the requested versions of the protocol, or refuses
    ///   the handshake.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the child process.
    pub async fn connect_stdio(self, config: StdioConfig) -> Result<McpClient, McpError> {
        let options = StdioOptions {
            inherit: self.inherit_env,
            cwd: self.cwd,
            max_message_bytes: self.settings.max_message_bytes,
        };
        let shared = Shared::new(self.settings, self.handlers, self.log_level);
        McpClient::connect(StdioConnector::new(config, options), shared).await
    }

    /// Connects to a server over Streamable HTTP.
    ///
    /// # Errors
    ///
    /// - [`McpError::Connection`] if the URL or a header is invalid, or if the server cannot be reached, denies access,
    ///   or does not respond in time.
    /// - [`McpError::Initialization`] if the server supports none of the requested versions of the protocol, or
    ///   refuses the handshake.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn connect_http(self, config: HttpConfig) -> Result<McpClient, McpError> {
        #[cfg_attr(not(feature = "oauth"), expect(unused_mut, reason = "with the feature it is"))]
        let mut connector = HttpConnector::new(&config, &self.settings)?;
        #[cfg(feature = "oauth")]
        if let Some(oauth) = self.oauth {
            connector.authorize(&config, &self.settings, oauth).await?;
        }
        let mut shared = Shared::new(self.settings, self.handlers, self.log_level);
        shared.authorization = connector.authorization();
        McpClient::connect(connector, shared).await
    }

    /// Connects to a server over open streams, such as a socket or a pipe.
    ///
    /// Each line is a message, as in the stdio transport. A lost connection cannot be restored, because the client
    /// cannot open new streams.
    ///
    /// A message of more than [`max_message_bytes`](Self::max_message_bytes) is discarded. The client looks for the id
    /// of the request in the first and last 512 bytes of the message. If the id is found, the request fails with
    /// [`McpLimitExceeded`](crate::McpLimitExceeded). If the id is not found, the request fails with a timeout.
    ///
    /// # Errors
    ///
    /// - [`McpError::Connection`] if the streams end, or the server does not respond in time.
    /// - [`McpError::Initialization`] if the server supports none of the requested versions of the protocol, or refuses
    ///   the handshake.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the streams.
    pub async fn connect_io<R, W>(mut self, reader: R, writer: W) -> Result<McpClient, McpError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.settings.reconnect = false;
        let connector = StreamConnector::new(reader, writer, self.settings.max_message_bytes);
        let shared = Shared::new(self.settings, self.handlers, self.log_level);
        McpClient::connect(connector, shared).await
    }
}
