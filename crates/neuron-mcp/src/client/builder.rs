//! The builder of a client.

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

/// Sets up a client.
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
    /// Sets who the client says it is. By default it is neuron in its version.
    pub fn implementation(mut self, implementation: McpImplementation) -> Self {
        self.settings.implementation = implementation;
        self
    }

    /// Sets the supported versions of the protocol, of which the newest that the server knows is used. Default:
    /// all.
    pub fn versions(mut self, versions: impl IntoIterator<Item = McpVersion>) -> Self {
        self.settings.versions = versions.into_iter().collect();
        self.settings.versions.sort_unstable_by(|a, b| b.cmp(a));
        self.settings.versions.dedup();
        self
    }

    /// Sets the maximum time until a server responds to a request or reports progress, which restarts the time.
    /// Default: 60 seconds. The time stands still while the server waits for this client, for example for a
    /// person who fills in a form.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.settings.request_timeout = limit;
        self
    }

    /// Sets how long a server may take to answer a request, whatever progress it tells of. By default 10
    /// minutes.
    pub fn max_request_time(mut self, limit: Duration) -> Self {
        self.settings.max_request_time = limit;
        self
    }

    /// Sets how long it may take to connect, from the start of the program to the end of the handshake. By
    /// default 30 seconds. Then the server gets 5 seconds more to confirm a log level, subscriptions and that
    /// it will tell what changes; what it does not confirm by then goes on beside the first requests.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.settings.connect_timeout = limit;
        self
    }

    /// Sets how long a message of the server may be, in bytes. By default 16 MiB. Over HTTP, an answer that
    /// is one JSON text may have 16 MiB whatever is set here.
    pub fn max_message_bytes(mut self, limit: usize) -> Self {
        self.settings.max_message_bytes = limit;
        self
    }

    /// Sets how often a server may want input for one request (MCP 2026-07-28). By default 10 times.
    pub fn max_input_rounds(mut self, limit: usize) -> Self {
        self.settings.max_input_rounds = limit;
        self
    }

    /// Sets the maximum number of questions of the server, for the model or the person, that are answered at once. Further
    /// ones are refused. By default 8.
    pub fn max_questions_at_once(mut self, questions: usize) -> Self {
        self.handlers.limits.at_once = questions;
        self
    }

    /// Sets the maximum number of questions of the server, for the model or the person, within any 60 seconds. Further
    /// ones are refused, and reach no handler. By default 60.
    pub fn max_questions_per_minute(mut self, questions: usize) -> Self {
        self.handlers.limits.per_minute = questions;
        self
    }

    /// Lets servers use a model of ours. By default they may not.
    pub fn sampling(mut self, handler: impl SamplingHandler + 'static) -> Self {
        self.handlers.set_sampling(handler);
        self
    }

    /// Lets servers ask the person at the client. By default they may not.
    pub fn elicitation(mut self, handler: impl ElicitationHandler + 'static) -> Self {
        self.handlers.set_elicitation(handler);
        self
    }

    /// Lets servers know in which folders they may work. By default they are told nothing of it. A list
    /// that is empty now may be [replaced](McpClient::set_roots) later.
    pub fn roots(mut self, roots: Vec<McpRoot>) -> Self {
        self.handlers.declare_roots(roots);
        self
    }

    /// Asks for log messages from this level up, if the server has any. By default the server decides
    /// which it sends; one of MCP 2026-07-28 then sends none.
    pub fn log_level(mut self, level: LogLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Sets whether a connection that was lost is made anew for the next request. By default it is.
    pub fn reconnect(mut self, reconnect: bool) -> Self {
        self.settings.reconnect = reconnect;
        self
    }

    /// Sets what tells where the current span is, for requests whose
    /// [`ToolContext`](neuron_types::ToolContext) has no [`TraceContext`]. It is called inside the span of each
    /// request. By default such requests carry none.
    ///
    /// With the crate `neuron-otel` this is its `current_trace_context`.
    pub fn trace_context(
        mut self,
        current: impl Fn() -> Option<TraceContext> + Send + Sync + 'static,
    ) -> Self {
        self.settings.propagation.read_with(current);
        self
    }

    /// Sets the function that makes a span a child of a span of the server. It is called with the span of each
    /// question of the server that has a [`TraceContext`], before the span is entered. By default such spans
    /// are roots.
    ///
    /// With the crate `neuron-otel` this is its `set_trace_parent`.
    pub fn trace_parent(
        mut self,
        set_parent: impl Fn(&tracing::Span, &TraceContext) + Send + Sync + 'static,
    ) -> Self {
        self.settings.propagation.write_with(set_parent);
        self
    }

    /// Names variables of our environment that a server which is a program sees too. By default it sees
    /// only a short list of harmless ones.
    pub fn inherit_env<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.inherit_env.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the folder in which a server that is a program starts. By default it is ours.
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// Lets a person authorize this client at an HTTP server that wants it, by OAuth 2.1. By default nobody
    /// is asked, and such a server is an error. The time that this takes is no part of any limit here.
    #[cfg(feature = "oauth")]
    pub fn oauth(mut self, config: OAuthConfig) -> Self {
        self.oauth = Some(config);
        self
    }

    /// Starts a server that is a program, and connects to it.
    ///
    /// # Errors
    ///
    /// [`McpError::Connection`]: the program does not start, or ends, or does not answer in time.
    /// [`McpError::Initialization`]: it speaks no version of the protocol that is wanted, or refuses.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the program.
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
    /// [`McpError::Connection`]: the address or a header is none, or the server cannot be reached, does not
    /// let us in, or does not answer in time. [`McpError::Initialization`]: it speaks no version of the
    /// protocol that is wanted, or refuses.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the connection.
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

    /// Connects to a server over open streams, such as a socket or a pipe. Each line is a message, as over
    /// standard input and output. A lost connection of this kind cannot be restored. A message that is too long
    /// is skipped, and its request waits until the time limit.
    ///
    /// # Errors
    ///
    /// [`McpError::Connection`]: the streams end, or the server does not answer in time.
    /// [`McpError::Initialization`]: it speaks no version of the protocol that is wanted, or refuses.
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
