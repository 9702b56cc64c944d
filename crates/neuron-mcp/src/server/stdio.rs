//! A server over standard input and output, or any other pair of streams.

mod lines;
mod pipes;

use std::time::Duration;

use neuron_types::McpError;
use rmcp::service::{QuitReason, ServerInitializeError, serve_server};
use tokio::io::{AsyncRead, AsyncWrite};

use super::mcp_server::McpServer;
use super::traced::Traced;
use lines::LineTransport;

/// How long a client that says hello may go on to after the server was shut down.
const MOMENT: Duration = Duration::from_secs(2);

impl McpServer {
    /// Serves one client over standard input and output, until it disconnects: the transport of a server that
    /// its client starts as a program.
    ///
    /// Standard output belongs to the protocol: a program that serves so prints nothing there and writes its
    /// log to standard error (with `tracing_subscriber::fmt().with_writer(std::io::stderr)`).
    ///
    /// What else it does is what [`serve_io`](Self::serve_io) does.
    ///
    /// # Errors
    ///
    /// Those of [`serve_io`](Self::serve_io).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the server. Its threads still wait for standard input and output then, which
    /// does not keep the program from ending.
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

    /// Serves one client over a pair of streams, a message a line, until it disconnects.
    ///
    /// - At the end of the input, calls that run have five seconds to finish, so that whoever writes requests
    ///   and closes gets the answers and all that calls tell before; then they are cancelled. Subscriptions end
    ///   at once.
    /// - With [`with_shutdown`](Self::with_shutdown)'s token it ends, too: calls are cancelled, and the client is
    ///   told so. A client that reads nothing delays either end by a few seconds.
    /// - From a client that does not read its answers nothing more is read while 32 MiB of them wait.
    /// - A line of more than 16 MiB is not read: the client gets an error (without an id, which is in the
    ///   line), and the next line counts. What is no JSON is skipped, so that two programs that take each other
    ///   for a server do not exchange errors for ever.
    ///
    /// # Errors
    ///
    /// [`McpError::Initialization`] if the client begins with something else than the protocol has, and
    /// [`McpError::Transport`] if the connection cannot be written to then. A client that goes away is no
    /// error.
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
            // The client does not read what it is answered.
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
