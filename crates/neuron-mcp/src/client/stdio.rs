//! The message transport to a server in a child process, over its standard input and output.

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

/// Maximum wait for a server to end, first after its input is closed, and again after the termination signal. The
/// specification names no times. Official SDKs wait two or three seconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum wait until killed processes have ended.
const PATIENCE_AFTER_KILL: Duration = Duration::from_secs(5);
/// Maximum time without output after the server has ended. The transport then closes, although another process still
/// holds the output open.
const SILENCE_AFTER_END: Duration = Duration::from_secs(1);
/// Maximum wait for the exit of a server that has closed its output. The wait exists because a killed server has no
/// exit status to report.
const LAST_MOMENTS: Duration = Duration::from_secs(1);

/// Options of a child process server, in addition to [`StdioConfig`].
#[derive(Debug, Clone)]
pub(crate) struct StdioOptions {
    /// Names of additional environment variables that the server inherits.
    pub(crate) inherit: Vec<String>,
    /// Working directory of the server. `None` for the working directory of this process.
    pub(crate) cwd: Option<PathBuf>,
    /// Maximum size of a message that the server sends, in bytes.
    pub(crate) max_message_bytes: usize,
}

/// The process of a server and its message transport.
///
/// Dropping the transport kills the server immediately. [`close`](Transport::close) first asks the server to end. On
/// Unix, except OpenBSD and Redox, child processes of the server are killed too, because they share a process group
/// with it.
#[derive(Debug)]
pub(crate) struct StdioTransport {
    messages: LineTransport<ChildStdout>,
    /// `true` once the server has closed its output.
    is_output_closed: bool,
    /// Start of the time without output. Set if the process has ended while another process holds its output open.
    silent_since: Option<Instant>,
    report: ExitReport,
    process: Process,
}

impl StdioTransport {
    /// Starts the process of the server.
    ///
    /// # Errors
    ///
    /// Returns [`McpError::Connection`] if the command, the working directory or a variable is invalid, or if the
    /// process cannot be started.
    pub(crate) fn spawn(config: &StdioConfig, options: &StdioOptions) -> Result<Self, McpError> {
        if tokio::runtime::Handle::try_current().is_err() {
            let text = "a server can only be started inside a tokio runtime".to_owned();
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

    /// Returns the report of the server's end, for error messages. The report can be used after the transport was
    /// dropped.
    pub(crate) fn exit_report(&self) -> ExitReport {
        self.report.clone()
    }

    /// Waits until the server has ended and closed its output. Returns `false` after `patience`.
    ///
    /// Reads and discards the output meanwhile, because a server that writes to a full pipe cannot end.
    async fn wait_for_end(&mut self, patience: Duration) -> bool {
        let mut life = self.process.life();
        let end = async {
            self.messages.drain().await;
            // An error means that the thread or task that watches the process has ended, so the process is gone.
            let _ = life.wait_for(Life::has_ended).await;
        };
        tokio::time::timeout(patience, end).await.is_ok()
    }

    /// Closes the server's input, and waits for at most `after_input`. If the server has not ended by then, sends a
    /// termination signal and waits for at most `after_signal`. Finally kills the server if it still runs.
    async fn close_within(&mut self, after_input: Duration, after_signal: Duration) {
        self.messages.finish_input();
        if !self.wait_for_end(after_input).await {
            self.messages.close_input();
            self.process.terminate();
            if !self.wait_for_end(after_signal).await {
                tracing::debug!("the server does not end after a signal, so it is killed");
            }
        }
        self.process.kill();
        let mut life = self.process.life();
        // A timeout is not an error, because a thread watches the process until it has ended.
        let _ = tokio::time::timeout(PATIENCE_AFTER_KILL, life.wait_for(Life::is_gone)).await;
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        // The server has closed its output. With some time to exit by itself, its exit status can be reported.
        if self.is_output_closed {
            self.process.kill_after(LAST_MOMENTS);
        }
    }
}

/// Waits until [`SILENCE_AFTER_END`] has passed since the time `since`. Never completes if `since` is `None`.
async fn silence(since: Option<Instant>) {
    match since {
        Some(since) => sleep_until(since + SILENCE_AFTER_END).await,
        None => std::future::pending().await,
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    /// Queues a message and waits until it is written. If the future is dropped, the message is still written
    /// completely and in order.
    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.messages.send(message)
    }

    /// Waits for the next message. Returns `None` once the server's output is closed, or if no output arrives for a
    /// while after the process has ended. Cancel safe.
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
                    // An error means that the task that watches the process was stopped, because the runtime shuts
                    // down.
                    life.ok()?;
                }
                () = silence(ended_since), if !runs => return None,
            }
        }
        None
    }

    /// Ends the server in three steps (MCP specification, "Lifecycle", "Shutdown", stdio):
    ///
    /// - Closes the server's input, and waits for the end of the server.
    /// - Sends a termination signal if the server still runs, and waits again.
    /// - Kills the server if it still runs.
    async fn close(&mut self) -> Result<(), Self::Error> {
        self.close_within(PATIENCE, PATIENCE).await;
        Ok(())
    }
}
