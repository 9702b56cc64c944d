//! A server over standard input and output, or any pair of streams.

mod lines;
mod pipes;

use std::time::Duration;

use neuron_types::McpError;
use rmcp::service::{QuitReason, ServerInitializeError, serve_server};
use tokio::io::{AsyncRead, AsyncWrite};

use super::mcp_server::McpServer;
use super::traced::Traced;
use lines::LineTransport;

/// Grace period for a handshake that is in progress when the server shuts down.
const MOMENT: Duration = Duration::from_secs(2);

impl McpServer {
    /// Serves one client over standard input and output until it disconnects. Use this transport for a server that
    /// clients start as a program.
    ///
    /// Standard output is reserved for the protocol. The program must not print to it, and writes its log to standard
    /// error (with `tracing_subscriber::fmt().with_writer(std::io::stderr)`).
    ///
    /// Otherwise behaves like [`serve_io`](Self::serve_io).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`serve_io`](Self::serve_io).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server. Its threads may still be blocked on standard input and output, which does
    /// not prevent the program from exiting.
    ///
    /// # Example: until the client is gone, or Ctrl-C
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

    /// Serves one client over a pair of streams, with one message per line, until it disconnects.
    ///
    /// - At the end of the input, running calls have five seconds to finish, and are then cancelled. A client that
    ///   writes requests and closes its output still receives the responses and the notifications of the calls.
    ///   Subscriptions end at once.
    /// - If the token of [`with_shutdown`](Self::with_shutdown) is cancelled, calls are cancelled and the client
    ///   receives their errors. A client that does not read delays the end by a few seconds.
    /// - If 32 MiB of responses wait for a client that does not read, no more requests are read from it.
    /// - A line of more than 16 MiB is discarded. The client receives an error without an id, because the id is in the
    ///   line, and the next line is processed. A line that is not JSON is skipped. Otherwise two programs that both act
    ///   as servers would exchange errors for ever.
    ///
    /// # Errors
    ///
    /// Returns [`McpError::Initialization`] if the first message violates the protocol, and [`McpError::Transport`] if
    /// writing fails at that time. A client that disconnects is not an error.
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
        let handler = Traced::connect(&self.serving()?, transport);
        let closing = handler.closing();
        let lines = LineTransport::new(input, output, self.shutdown.clone(), closing);
        let late = async {
            self.shutdown.cancelled().await;
            tokio::time::sleep(MOMENT).await;
        };
        let begun = tokio::select! {
            biased;
            begun = serve_server(handler, lines) => begun,
            // The client does not read its responses.
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
                    "the client began with something else than a request".to_owned(),
                ))
            }
            Err(error) => Err(McpError::Initialization(error.to_string())),
        }
    }
}
