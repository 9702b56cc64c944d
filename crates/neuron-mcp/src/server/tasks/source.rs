//! [`TaskSource`], by which an application offers its stored work as tasks.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::SystemTime;

use neuron_types::{ToolError, ToolOutput};
use rmcp::model::{DetailedTask, ErrorData, InputResponses, JsonObject, Task, TaskPayload};
use serde_json::Value;

use super::{McpTasks, unknown_task};
use crate::erased::erased;
use crate::server::inputs::fitting_answer;
use crate::server::peer::McpPeer;
use crate::server::tool_result;
use crate::server::{InputAnswers, InputRequest};
use crate::wire;

/// The tasks that an application stores, such as durable runs of agents. They survive a restart of the server.
///
/// A tool starts the work under an id of its choice, and calls
/// [`McpPeer::answer_with_task`](crate::McpPeer::answer_with_task) with the id. The client then requests the state of
/// the task, which this trait returns.
///
/// An id must be unpredictable, or each method must check that the task belongs to the caller, for example with
/// [`McpPeer::extension`](crate::McpPeer::extension).
///
/// # Cancel safety
///
/// The server drops the future of a method if the client cancels its request, or if the server shuts down.
///
/// # Example: durable runs that wait for approvals
///
/// ```
/// use neuron_mcp::{InputAnswers, McpPeer, McpTask, McpTaskState, TaskSource};
/// use neuron_types::{ApprovalDecisions, PendingApproval, ToolError, ToolOutput};
///
/// # enum Status { Running, Waiting(PendingApproval), Done(String), Cancelled }
/// # struct Runs;
/// # impl Runs {
/// #     async fn status(&self, _: &str) -> Result<Option<Status>, ToolError> { Ok(None) }
/// #     async fn decide(&self, _: &str, _: ApprovalDecisions) -> Result<(), ToolError> { Ok(()) }
/// #     async fn stop(&self, _: &str) -> Result<(), ToolError> { Ok(()) }
/// # }
/// impl TaskSource for Runs {
///     async fn get(&self, id: &str, _: &McpPeer) -> Result<Option<McpTask>, ToolError> {
///         let Some(status) = self.status(id).await? else { return Ok(None) };
///         Ok(Some(McpTask::new(match status {
///             Status::Running => McpTaskState::Working,
///             Status::Waiting(pending) => McpTaskState::approval(&pending),
///             Status::Done(response) => McpTaskState::Completed(ToolOutput::text(response)),
///             Status::Cancelled => McpTaskState::Cancelled,
///         })))
///     }
///
///     async fn update(&self, id: &str, answers: InputAnswers, _: &McpPeer) -> Result<(), ToolError> {
///         if let Some(Status::Waiting(pending)) = self.status(id).await?
///             && let Some(decisions) = answers.approval_decisions(&pending)
///         {
///             self.decide(id, decisions).await?;
///         }
///         Ok(())
///     }
///
///     async fn cancel(&self, id: &str, _: &McpPeer) -> Result<(), ToolError> {
///         self.stop(id).await
///     }
/// }
/// ```
pub trait TaskSource: Send + Sync {
    /// Returns a task. Returns `None` if there is no task with this id, or if it does not belong to the caller `peer`.
    ///
    /// # Errors
    ///
    /// The client receives an internal error with the text.
    fn get(
        &self,
        id: &str,
        peer: &McpPeer,
    ) -> impl Future<Output = Result<Option<McpTask>, ToolError>> + Send;

    /// Takes responses of the client to requests of [`McpTaskState::InputRequired`]. [`get`](Self::get) has returned the
    /// task immediately before, so the caller may access it. The responses may be incomplete.
    ///
    /// # Errors
    ///
    /// The client receives an internal error with the text.
    fn update(
        &self,
        id: &str,
        answers: InputAnswers,
        peer: &McpPeer,
    ) -> impl Future<Output = Result<(), ToolError>> + Send;

    /// Cancels a task, if it has not ended. [`get`](Self::get) has returned the task immediately before.
    ///
    /// # Errors
    ///
    /// The client receives an internal error with the text.
    fn cancel(
        &self,
        id: &str,
        peer: &McpPeer,
    ) -> impl Future<Output = Result<(), ToolError>> + Send;
}

erased! {
    /// Object-safe form of [`TaskSource`], whose methods return boxed futures.
    pub(crate) trait DynTaskSource<'a>: TaskSource {
        async fn get(id: &'a str, peer: &'a McpPeer) -> Result<Option<McpTask>, ToolError>;
        async fn update(id: &'a str, answers: InputAnswers, peer: &'a McpPeer)
            -> Result<(), ToolError>;
        async fn cancel(id: &'a str, peer: &'a McpPeer) -> Result<(), ToolError>;
    }
}

/// A task of a [`TaskSource`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct McpTask {
    /// State of the task.
    pub state: McpTaskState,
    /// Text for the user or the model that describes the state. Defaults to none.
    pub message: Option<String>,
    /// Time at which the task was created. Defaults to the time of [`new`](Self::new).
    pub created_at: SystemTime,
    /// Time of the last change. Defaults to the time of [`new`](Self::new).
    pub changed_at: SystemTime,
}

impl McpTask {
    /// Creates a task without a message.
    #[must_use]
    pub fn new(state: McpTaskState) -> Self {
        let now = SystemTime::now();
        Self { state, message: None, created_at: now, changed_at: now }
    }
}

/// The state of an [`McpTask`].
#[derive(Debug, Clone, PartialEq)]
pub enum McpTaskState {
    /// The work continues.
    Working,
    /// The work needs input from the client. A key must not be used for another request of the same task, because
    /// clients respond to each key once. If the client does not support a request, it receives the state
    /// [`Working`](Self::Working) with a message.
    InputRequired(BTreeMap<String, InputRequest>),
    /// The work has ended with this result, which may be an [error](ToolOutput::error).
    Completed(ToolOutput),
    /// The work was cancelled.
    Cancelled,
}

impl McpTasks {
    /// Returns a task of the source.
    ///
    /// # Errors
    ///
    /// Returns an error if the task does not exist, the source fails, or a request for input is invalid.
    async fn find(&self, id: &str, peer: &McpPeer) -> Result<McpTask, ErrorData> {
        let found = match &self.source {
            Some(source) => source.get(id, peer).await.map_err(|error| failed(&error))?,
            None => None,
        };
        found.ok_or_else(unknown_task)
    }

    /// Returns the task `id` of the source as the client receives it, with the id `shown`.
    pub(crate) async fn stored(
        &self,
        id: &str,
        shown: &str,
        peer: &McpPeer,
    ) -> Result<DetailedTask, ErrorData> {
        let McpTask { state, mut message, created_at, changed_at } = self.find(id, peer).await?;
        let payload = match state {
            McpTaskState::Working => TaskPayload::Working,
            McpTaskState::InputRequired(asked) => {
                let unsupported =
                    asked.values().find_map(|request| peer.check_support(request).err());
                match unsupported {
                    Some(error) => {
                        message = Some(format!("waits for input: {error}"));
                        TaskPayload::Working
                    }
                    None => {
                        let to_sdk = |(key, request): (String, InputRequest)| {
                            Ok((key, wire::input::request_to_sdk(&request, None)?))
                        };
                        let requests: Result<_, neuron_types::McpError> =
                            asked.into_iter().map(to_sdk).collect();
                        let input_requests = requests
                            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                        TaskPayload::InputRequired { input_requests }
                    }
                }
            }
            McpTaskState::Completed(output) => {
                TaskPayload::Completed { result: result(&output, peer) }
            }
            McpTaskState::Cancelled => TaskPayload::Cancelled,
        };
        let created = created_at;
        let [created_at, changed_at] = [created_at, changed_at].map(wire::task::timestamp);
        let mut task = Task::new(shown, payload.status(), created_at, changed_at);
        if shown != id {
            // The id in memory is kept for this time after this request.
            let age = SystemTime::now().duration_since(created).unwrap_or_default();
            task.ttl_ms = wire::task::ttl_ms(age.saturating_add(self.ttl));
        }
        task.poll_interval_ms = Some(self.poll_interval_ms());
        task.status_message = message;
        Ok(DetailedTask::new(task, payload))
    }

    /// Passes the client's responses to the source. Ignores responses to requests that are not open.
    ///
    /// # Errors
    ///
    /// Returns an error if a response does not fit its request, the task does not exist, or the source fails.
    pub(crate) async fn update_stored(
        &self,
        id: &str,
        given: InputResponses,
        peer: &McpPeer,
    ) -> Result<(), ErrorData> {
        let McpTaskState::InputRequired(asked) = self.find(id, peer).await?.state else {
            return Ok(());
        };
        let mut answers = InputAnswers::default();
        for (key, response) in given {
            let Some(request) = asked.get(&key) else { continue };
            let answer = fitting_answer(request, &response).ok_or_else(|| {
                let text = format!("the response to the request `{key}` does not fit the request");
                ErrorData::invalid_params(text, None)
            })?;
            answers.0.insert(key, answer);
        }
        if answers.0.is_empty() {
            return Ok(());
        }
        self.source()?.update(id, answers, peer).await.map_err(|error| failed(&error))
    }

    /// Cancels a task of the source.
    pub(crate) async fn cancel_stored(&self, id: &str, peer: &McpPeer) -> Result<(), ErrorData> {
        self.find(id, peer).await?;
        self.source()?.cancel(id, peer).await.map_err(|error| failed(&error))
    }
}

/// Converts the result of a tool for the client of a task.
pub(super) fn result(output: &ToolOutput, peer: &McpPeer) -> JsonObject {
    let result = wire::tool::output_to_sdk(output, peer.version());
    match serde_json::to_value(result) {
        Ok(Value::Object(result)) => result,
        _ => JsonObject::new(),
    }
}

/// Converts an error of the source.
fn failed(error: &ToolError) -> ErrorData {
    ErrorData::internal_error(tool_result::text(error), None)
}
