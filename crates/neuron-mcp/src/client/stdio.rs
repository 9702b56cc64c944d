//! The transport to a child process over its standard input and output.

mod environment;
mod exit_report;
mod process;
mod program;
mod stderr;
#[cfg(all(test, unix))]
mod tests;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use neuron_types::McpError;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::process::ChildStdout;
use tokio::time::{Instant, sleep_until};

pub(crate) use self::exit_report::ExitReport;
use self::process::{Life, Process};
use super::line_transport::LineTransport;
use crate::StdioConfig;

/// Maximum wait for the end of a server after its input was closed, and again after a signal. The specification
/// requires the two steps and sets no times. The official SDKs wait two and three seconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum wait for the end of killed processes.
const PATIENCE_AFTER_KILL: Duration = Duration::from_secs(5);
/// Time without output after which the connection to an ended server is closed, if another process holds the output
/// open.
const SILENCE_AFTER_END: Duration = Duration::from_secs(1);
/// Time for a server that has closed its output to exit by itself, so that its exit status can be reported.
const LAST_MOMENTS: Duration = Duration::from_secs(1);

/// Options beside [`StdioConfig`].
#[derive(Debug, Clone)]
pub(crate) struct StdioOptions {
    /// Names of additional environment variables that the server inherits.
    pub(crate) inherit: Vec<String>,
    /// Working directory of the server. `None` is the working directory of this process.
    pub(crate) cwd: Option<PathBuf>,
    /// Maximum size of a message of the server in bytes.
    pub(crate) max_message_bytes: usize,
}

/// The process of a server with its message transport.
///
/// On Unix, except OpenBSD and Redox, the server leads its own process group, so that processes that it starts end with
/// it. Dropping the transport kills the group. [`close`](Transport::close) first asks it to end.
#[derive(Debug)]
pub(crate) struct StdioTransport {
    messages: LineTransport<ChildStdout>,
    /// The server has closed its output.
    is_output_closed: bool,
    /// Time of the last output, or of the end of the process if it was later. Set if the process has ended while
    /// another process holds its output open.
    silent_since: Option<Instant>,
    report: ExitReport,
    process: Process,
}

impl StdioTransport {
    /// Starts the server.
    ///
    /// # Errors
    ///
    /// [`McpError::Connection`], which names the invalid command, working directory or variable, or contains the error
    /// of the operating system.
    pub(crate) fn spawn(config: &StdioConfig, options: &StdioOptions) -> Result<Self, McpError> {
        if tokio::runtime::Handle::try_current().is_err() {
            let text = "a server is started inside a tokio runtime only".to_owned();
            return Err(McpError::Connection(text));
        }
        let command = program::command(config, options)?;
        let (process, pipes) = Process::spawn(command)
            .map_err(|error| program::not_started(&config.command, &error))?;
        let life = process.life();
        let stderr = stderr::follow(pipes.stderr, config.command.clone(), life.clone());
        Ok(Self {
            messages: LineTransport::new(pipes.stdout, pipes.stdin, options.max_message_bytes),
            is_output_closed: false,
            silent_since: None,
            report: ExitReport::new(life, stderr),
            process,
        })
    }

    /// Returns the report of the server's end for an error message. It outlives the transport.
    pub(crate) fn exit_report(&self) -> ExitReport {
        self.report.clone()
    }

    /// Waits until the server has ended and its output is closed, for at most `patience`. Returns `false` after it.
    ///
    /// Reads remaining output meanwhile, because a server that blocks on a full pipe could not end.
    async fn wait_for_end(&mut self, patience: Duration) -> bool {
        let mut life = self.process.life();
        let end = async {
            self.messages.drain().await;
            // An error means that the watcher has ended, so the process is gone.
            let _ = life.wait_for(Life::has_ended).await;
        };
        tokio::time::timeout(patience, end).await.is_ok()
    }

    /// Ends the server. It is signalled `after_input` after its input was closed, and killed `after_signal` later.
    async fn close_within(&mut self, after_input: Duration, after_signal: Duration) {
        self.messages.finish_input();
        if !self.wait_for_end(after_input).await {
            self.messages.close_input();
            self.process.terminate();
            if !self.wait_for_end(after_signal).await {
                tracing::debug!("a server does not end when it is asked to; it is killed");
            }
        }
        self.process.kill();
        let mut life = self.process.life();
        // A timeout is not an error, because the process is watched until it is gone.
        let _ = tokio::time::timeout(PATIENCE_AFTER_KILL, life.wait_for(Life::is_gone)).await;
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        if self.is_output_closed {
            self.process.kill_after(LAST_MOMENTS);
        }
    }
}

/// Waits until there was no output for [`SILENCE_AFTER_END`]. Waits forever without a start time.
async fn silence(since: Option<Instant>) {
    match since {
        Some(since) => sleep_until(since + SILENCE_AFTER_END).await,
        None => std::future::pending().await,
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    /// Queues a message. It is written completely and in order, even if the future is dropped.
    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.messages.send(message)
    }

    /// Waits for the next message. Cancel safe.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let mut life = self.process.life();
        while !self.is_output_closed {
            let runs = !life.borrow_and_update().has_ended();
            let ended_since = (!runs).then(|| *self.silent_since.get_or_insert_with(Instant::now));
            tokio::select! {
                biased;
                message = self.messages.receive() => {
                    self.silent_since = None;
                    self.is_output_closed = message.is_none();
                    return message;
                }
                life = life.changed(), if runs => {
                    // An error means that the watcher has ended, because the runtime shuts down.
                    life.ok()?;
                }
                () = silence(ended_since), if !runs => return None,
            }
        }
        None
    }

    /// Closes the server's input, waits, sends a signal, waits, and kills it (MCP specification, "Lifecycle", shutdown
    /// over stdio). Dropping the transport meanwhile kills it at once.
    async fn close(&mut self) -> Result<(), Self::Error> {
        self.close_within(PATIENCE, PATIENCE).await;
        Ok(())
    }
}
