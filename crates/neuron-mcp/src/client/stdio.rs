//! A server that is a child process, spoken to over its standard input and output.

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
/// requires the two steps without times. The SDKs wait two and three seconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum wait for the end of killed processes.
const PATIENCE_AFTER_KILL: Duration = Duration::from_secs(5);
/// Time for which the output of an ended server must be silent if another process holds it open.
const SILENCE_AFTER_END: Duration = Duration::from_secs(1);
/// A server that has closed its output may end by itself for so long, so that its exit status can be told.
const LAST_MOMENTS: Duration = Duration::from_secs(1);

/// Options beside [`StdioConfig`].
#[derive(Debug, Clone)]
pub(crate) struct StdioOptions {
    /// Names of our environment variables that the server is to see too.
    pub(crate) inherit: Vec<String>,
    /// Working directory of the server. `None` is ours.
    pub(crate) cwd: Option<PathBuf>,
    /// The longest message that is taken from the server, in bytes.
    pub(crate) max_message_bytes: usize,
}

/// The process of a server, and the messages to and from it.
///
/// On unix (but for OpenBSD and Redox) the server leads a process group of its own, so that what it starts ends with it. Dropping kills
/// the group; [`close`](Transport::close) asks it to end first.
#[derive(Debug)]
pub(crate) struct StdioTransport {
    messages: LineTransport<ChildStdout>,
    /// The server has closed its output.
    is_output_closed: bool,
    /// Since when the process has ended, and its output, which something else holds open, has been silent.
    silent_since: Option<Instant>,
    report: ExitReport,
    process: Process,
}

impl StdioTransport {
    /// Starts the server.
    ///
    /// # Errors
    ///
    /// [`McpError::Connection`], which names what is wrong: the command, the working directory, a variable,
    /// or what the system said.
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

    /// Returns the report of the server's end for an error message. It works without the transport too.
    pub(crate) fn exit_report(&self) -> ExitReport {
        self.report.clone()
    }

    /// Waits until the server has ended, and all that it started has closed its output, but not for ever.
    /// What it still writes is read, or it could not end.
    async fn wait_for_end(&mut self, patience: Duration) -> bool {
        let mut life = self.process.life();
        let end = async {
            self.messages.drain().await;
            // An error means that nobody watches the process any more: it is gone.
            let _ = life.wait_for(Life::has_ended).await;
        };
        tokio::time::timeout(patience, end).await.is_ok()
    }

    /// Ends the server, which may take so long after its input was closed, and so long again after the signal.
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
        // Not an error if it lasts: the process is watched until it is gone.
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

/// Waits until there was silence for long enough.
async fn silence(since: Option<Instant>) {
    match since {
        Some(since) => sleep_until(since + SILENCE_AFTER_END).await,
        None => std::future::pending().await,
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    /// The message is written whole and after those before it, also when the future is dropped.
    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.messages.send(message)
    }

    /// Cancel safe.
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
                    // Nobody watches the process any more: the runtime ends.
                    life.ok()?;
                }
                () = silence(ended_since), if !runs => return None,
            }
        }
        None
    }

    /// Closes the server's input, waits, asks it by a signal, waits, and kills it (MCP specification,
    /// "Lifecycle", shutdown over stdio). Dropped in between, it kills at once.
    async fn close(&mut self) -> Result<(), Self::Error> {
        self.close_within(PATIENCE, PATIENCE).await;
        Ok(())
    }
}
