//! [`McpServer::serve_stdio`] and [`McpServer::serve_io`], which serve one client over standard input and output or
//! over any pair of streams.

mod lines;
mod pipes;

use std::time::Duration;

use neuron_types::McpError;
use rmcp::service::{QuitReason, ServerInitializeError, serve_server};
use tokio::io::{AsyncRead, AsyncWrite};

use super::mcp_server::McpServer;
use super::traced::Traced;
use lines::LineTransport;

/// Time for which a handshake in progress may continue after the server shuts down.
const MOMENT: Duration = Duration::from_secs(2);

impl McpServer {
    /// Serves one client over standard input and output until the client disconnects. Use this transport for a server
    /// that clients start as a program.
    ///
    /// Standard output is reserved for the protocol. The program must not print to it. Write logs to standard error,
    /// for example with `tracing_subscriber::fmt().with_writer(std::io::stderr)`.
    ///
    /// [`serve_io`](Self::serve_io) describes what happens at the end of the input, on shutdown and after invalid
    /// input.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`serve_io`](Self::serve_io). Also returns [`McpError::Connection`] if the threads for
    /// standard input and output cannot be started.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server. Two threads of the server may still be blocked on standard input and
    /// output. They do not prevent the program from exiting.
    ///
    /// # Example: serve until the client disconnects or Ctrl-C is pressed
    ///
    /// ```no_run
    /// use neuron_mcp::McpServer;
    /// use neuron_tool::ToolRegistry;
    /// use tokio_util::sync::CancellationToken;
    ///
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let shutdown = CancellationToken::new();
    /// let server = McpServer::new(ToolRegistry::new()).with_shutdown(shutdown.clone());
    /// tokio::spawn(async move {
    ///     if tokio::signal::ctrl_c().await.is_ok() {
    ///         shutdown.cancel();
    ///     }
    /// });
    /// server.serve_stdio().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn serve_stdio(&self) -> Result<(), McpError> {
        let (input, output) = pipes::standard().map_err(|error| {
            McpError::Connection(format!("cannot serve standard input and output: {error}"))
        })?;
        self.serve_streams(input, output, Some("pipe")).await
    }

    /// Serves one client over a pair of streams until the client disconnects. Each line contains one message.
    ///
    /// - When the client closes the input, running calls may continue for five seconds and are then cancelled. The
    ///   client still receives the responses and notifications of these calls. Subscriptions end immediately.
    /// - When the token of [`with_shutdown`](Self::with_shutdown) is cancelled, running calls are cancelled and the
    ///   client receives their errors. If the client does not read, the shutdown takes a few seconds longer.
    /// - If the client does not read and 32 MiB of responses are queued, the server stops reading requests.
    /// - A line of more than 16 MiB is discarded, and the server continues with the next line. The client receives an
    ///   error without an id, because the id was in the discarded line.
    /// - A line that is not JSON is skipped without a response. A response could cause an endless exchange of errors
    ///   with a program that also acts as a server.
    ///
    /// # Errors
    ///
    /// - [`McpError::Initialization`] if the first message violates the protocol, or the settings are invalid.
    /// - [`McpError::Transport`] if a write fails during the handshake.
    ///
    /// A client that disconnects is not an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server.
    pub async fn serve_io<R, W>(&self, input: R, output: W) -> Result<(), McpError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        self.serve_streams(input, output, None).await
    }

    /// Serves one client over a pair of streams. `transport` is the value of the span attribute `network.transport`,
    /// such as `pipe`, or `None` if unknown.
    async fn serve_streams<R, W>(
        &self,
        input: R,
        output: W,
        transport: Option<&'static str>,
    ) -> Result<(), McpError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let handler = Traced::connect(&self.serving(None)?, transport);
        let closing = handler.closing();
        let lines = LineTransport::new(input, output, self.shutdown.clone(), closing);
        let late = async {
            self.shutdown.cancelled().await;
            tokio::time::sleep(MOMENT).await;
        };
        let begun = tokio::select! {
            biased;
            begun = serve_server(handler, lines) => begun,
            // The handshake still waits although the server shuts down, so the client does not read its responses.
            () = late => return Ok(()),
        };
        match begun {
            Ok(serving) => match serving.waiting().await {
                Ok(QuitReason::JoinError(error)) | Err(error) => Err(McpError::Other(error.into())),
                Ok(_) => Ok(()),
            },
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error @ ServerInitializeError::TransportError { .. }) => {
                Err(McpError::Transport(error.to_string()))
            }
            Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
                Err(McpError::Initialization(
                    "the first message of the client is not a request".to_owned(),
                ))
            }
            Err(error) => Err(McpError::Initialization(error.to_string())),
        }
    }
}
