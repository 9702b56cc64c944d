//! Tasks that a server creates for tool calls (extension `io.modelcontextprotocol/tasks`).
//!
//! The server responds to the call with a task instead of a result. The client then requests the state of the task
//! until the task has ended.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use neuron_types::McpError;
use rmcp::model::{
    ClientRequest, GetTaskParams, GetTaskRequest, ServerResult, UpdateTaskParams, UpdateTaskRequest,
};
use rmcp::service::ServiceError;
use serde_json::Value;
use tokio::sync::oneshot;

use super::McpClient;
use super::clock::Clock;
use super::request::{self, Scope};
use super::settings::MAX_INPUT_ROUNDS;
use crate::wire::task::{self, ReportedState, ReportedTask};
use crate::{McpCancelled, McpTimeout, wire};

/// The method of the call, for errors.
const CALL: &str = "tools/call";
/// Maximum number of successive failures to reach the server. Before each repetition, the client waits as many seconds
/// as there were failures.
const MOST_FAILURES: u32 = 5;

impl McpClient {
    /// Waits for the end of the task that the server created for a call of `tool`, and returns the result of the call.
    /// Provides the input that the server requires.
    ///
    /// # Errors
    ///
    /// The error of the call, or the reason why the task cannot be followed. Except for the end of the task, the task is
    /// cancelled at the server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the task.
    pub(super) async fn follow_task(
        &self,
        tool: &str,
        scope: &Scope,
        created: &Value,
    ) -> Result<ServerResult, McpError> {
        // Up to version 2025-11-25, the extension does not exist.
        if self.current().version.has_handshake() {
            let text = format!(
                "the server created a task for the call of `{tool}`, but tasks were not requested"
            );
            return Err(McpError::ToolCall(text));
        }
        let task = task::parse(created, true).map_err(|reason| unusable(tool, &reason))?;
        let followed = self.link.follow(&task.id);
        let scope = Scope { is_tool: false, ..scope.clone() };
        let following = Following { client: self, tool, id: task.id.clone(), scope: &scope };
        tokio::select! {
            biased;
            () = scope.cancelled() => Err(request::cancelled(CALL)),
            error = self.link.closed() => Err(error),
            ended = following.to_end(task, followed) => ended,
        }
    }
}

/// A task that the client follows.
struct Following<'a> {
    client: &'a McpClient,
    /// Name of the called tool.
    tool: &'a str,
    /// Id of the task.
    id: String,
    scope: &'a Scope,
}

impl Following<'_> {
    /// Waits for the end of the task, and sends it to `followed`.
    async fn to_end(
        &self,
        mut task: ReportedTask,
        followed: oneshot::Sender<()>,
    ) -> Result<ServerResult, McpError> {
        let settings = &self.client.shared.settings;
        // Each request about the task has a limit for the time without a response. So only the total time is limited.
        let mut clock = Clock::start(Duration::MAX, settings.max_request_time);
        let mut changes = self.client.current().watch.task_changes();
        let mut message = None;
        let (mut answered, mut rounds) = (BTreeSet::new(), 0);
        loop {
            if task.message != message {
                message.clone_from(&task.message);
                self.scope.progress.status(message.as_deref().unwrap_or_default());
            }
            match task.state {
                ReportedState::Working => {}
                ReportedState::InputRequired(mut asked) => {
                    // A server repeats its requests until it has handled the responses.
                    asked.retain(|key, _| !answered.contains(key));
                    if !asked.is_empty() {
                        if rounds == MAX_INPUT_ROUNDS {
                            return Err(request::too_many_rounds(CALL));
                        }
                        rounds += 1;
                        clock.pause(true);
                        let responses = request::answers(&self.client.shared, asked).await?;
                        clock.pause(false);
                        answered.extend(responses.keys().cloned());
                        let params = UpdateTaskParams::new(&self.id, responses);
                        let update = UpdateTaskRequest::new(params);
                        self.send(&clock, ClientRequest::UpdateTaskRequest(update)).await?;
                        task.interval = task::SHORTEST_INTERVAL;
                    }
                }
                ReportedState::Completed(result) => {
                    let _ = followed.send(());
                    return Ok(*result);
                }
                ReportedState::Failed(error) => {
                    let _ = followed.send(());
                    return Err(wire::error::from_service(CALL, ServiceError::McpError(error)));
                }
                ReportedState::Cancelled => {
                    let _ = followed.send(());
                    return Err(request::cancelled(CALL));
                }
            }
            let pause = async {
                tokio::time::sleep(task::SHORTEST_INTERVAL).await;
                tokio::select! {
                    () = tokio::time::sleep(task.interval - task::SHORTEST_INTERVAL) => {}
                    Ok(()) = changes.changed() => {}
                }
            };
            unless_expired(&clock, pause).await?;
            let get = GetTaskRequest::new(GetTaskParams::new(&self.id));
            let reported = self.send(&clock, ClientRequest::GetTaskRequest(get)).await?;
            changes = self.client.current().watch.task_changes();
            let reported = serde_json::to_value(reported).unwrap_or_default();
            task = task::parse(&reported, false).map_err(|reason| unusable(self.tool, &reason))?;
        }
    }

    /// Sends a request about the task. If the connection is lost, repeats the request over a new connection. Also
    /// repeats a request without a response in time, because the task continues. A repetition has no other effect,
    /// because a server ignores responses that it has received before.
    async fn send(&self, clock: &Clock, request: ClientRequest) -> Result<ServerResult, McpError> {
        let mut failures = 0;
        loop {
            let sending = self.client.request(self.scope, request.clone());
            let error = match unless_expired(clock, sending).await? {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            let may_repeat = match &error {
                McpError::Transport(_) | McpError::Connection(_) => {
                    self.client.shared.settings.reconnect
                }
                McpError::Other(error) => error.is::<McpTimeout>(),
                _ => false,
            };
            if !may_repeat || failures == MOST_FAILURES {
                return Err(self.lost(error));
            }
            failures += 1;
            let pause = tokio::time::sleep(Duration::from_secs(failures.into()));
            unless_expired(clock, pause).await?;
        }
    }

    /// Creates the error for a task whose end the client cannot learn. The model must not think that the tool did not
    /// run.
    fn lost(&self, error: McpError) -> McpError {
        let Self { tool, id, .. } = self;
        let may_run = format!("the tool `{tool}` began, and may still run as the task `{id}`");
        match error {
            McpError::Transport(text) => McpError::Transport(format!("{text}; {may_run}")),
            McpError::Connection(text) => McpError::Connection(format!("{text}; {may_run}")),
            McpError::Initialization(text) => {
                McpError::Initialization(format!("{text}; {may_run}"))
            }
            McpError::Other(error) if !error.is::<McpCancelled>() => McpError::ToolCall(format!(
                "the tool `{tool}` began, but its result is lost, because its task `{id}` cannot \
                 be followed: {error}"
            )),
            error => error,
        }
    }
}

/// Returns the result of `work`. Returns a timeout if the call has taken too long.
async fn unless_expired<T>(clock: &Clock, work: impl Future<Output = T>) -> Result<T, McpError> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        limit = clock.expired() => Err(McpTimeout::error(CALL, limit)),
    }
}

/// Creates the error for a task that cannot be read. The model must not think that the tool did not run.
fn unusable(tool: &str, reason: &str) -> McpError {
    McpError::ToolCall(format!(
        "the tool `{tool}` began, but the server's task cannot be read: {reason}"
    ))
}
