//! The end of a run, as the server has stored it ([`End`]).

use neuron_durable::RunStatus;
use neuron_types::TokenUsage;
use temporalio_client::errors::WorkflowGetResultError;
use temporalio_client::tonic::Status as RpcStatus;
use temporalio_client::{
    Client, NamespacedClient, WorkflowExecutionInfo as Execution, WorkflowGetResultOptions,
    WorkflowHandle,
};
use temporalio_common::error::IncomingError;
use temporalio_common::protos::temporal::api::enums::v1::WorkflowExecutionStatus as Status;
use temporalio_common::protos::temporal::api::workflow::v1::WorkflowExecutionInfo;

use super::summary::closed_at;
use crate::json::Json;
use crate::outcome::RunFailure;
use crate::{AgentWorkflow, TemporalError};

/// The status, the reason and the failure with which a run ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: RunStatus,
    /// Text of the error. `None` if the run ended with a result or was cancelled.
    pub(super) reason: Option<String>,
    /// The failure that the run's workflow stored. `None` if the run ended with a result, or the server ended the run.
    pub(super) failure: Option<Box<RunFailure>>,
    /// Tokens that the run used. `None` if the run did not end with a result.
    pub(super) usage: Option<TokenUsage>,
}

impl End {
    /// Reads the result or failure from the last event of an execution. Returns `None` if the execution has not ended.
    /// If the result cannot be parsed, the status is [`RunStatus::Damaged`].
    ///
    /// # Errors
    ///
    /// The error of the server if the event cannot be read.
    pub(super) async fn of(
        client: &Client,
        info: &WorkflowExecutionInfo,
    ) -> Result<Option<Self>, RpcStatus> {
        let status = match info.status() {
            Status::Completed => RunStatus::Done,
            Status::Canceled => RunStatus::Cancelled,
            Status::Failed | Status::Terminated | Status::TimedOut => RunStatus::Failed,
            _ => return Ok(None),
        };
        let mut end = Self { status, reason: None, failure: None, usage: None };
        let execution = info.execution.clone().unwrap_or_default();
        let execution = Execution::builder()
            .namespace(client.namespace())
            .workflow_id(execution.workflow_id)
            .run_id(execution.run_id)
            .build();
        let handle = WorkflowHandle::<_, AgentWorkflow>::new(client.clone(), execution);
        let options = WorkflowGetResultOptions::builder().follow_runs(false).build();
        let error = match handle.get_result(options).await {
            Ok(outcome) => match outcome.read() {
                Ok(outcome) => {
                    end.usage = outcome.result.map(|result| result.usage);
                    return Ok(Some(end));
                }
                Err(error) => error.to_string(),
            },
            Err(WorkflowGetResultError::Failed(error)) => match failure(*error) {
                Ok(failure) => {
                    end.reason = Some(failure.message.clone());
                    end.failure = Some(Box::new(failure));
                    return Ok(Some(end));
                }
                Err(error) => error.to_string(),
            },
            Err(WorkflowGetResultError::Cancelled { .. }) => return Ok(Some(end)),
            Err(WorkflowGetResultError::Rpc(status) | WorkflowGetResultError::NotFound(status)) => {
                return Err(status);
            }
            Err(error) => error.to_string(),
        };
        if end.status == RunStatus::Done {
            end.status = RunStatus::Damaged;
        }
        end.reason = Some(error);
        Ok(Some(end))
    }

    /// Describes the end for an error text, with the status, the time and the reason.
    pub(super) fn text(&self, info: &WorkflowExecutionInfo) -> String {
        let at = closed_at(info).map(|time| format!(" at {time}"));
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}"));
        let (at, reason) = (at.unwrap_or_default(), reason.unwrap_or_default());
        let hint = match self.failure.as_ref().is_some_and(|failure| failure.pending.is_some()) {
            true => ". `DurableRuns::revive` lets it go on with decisions",
            false => "",
        };
        format!("its status is {}{at}{reason}{hint}", self.status)
    }
}

/// Returns the failure with which a workflow ended. Uses the details that this crate stored, if there are any.
///
/// # Errors
///
/// [`TemporalError::Ended`] if the workflow did not end by itself.
pub(super) fn failure(error: IncomingError) -> Result<RunFailure, TemporalError> {
    let IncomingError::Application(failure) = &error else {
        return Err(TemporalError::Ended(error.to_string()));
    };
    let details = failure.details::<Json<RunFailure>>();
    let details = details.ok().flatten().and_then(|details| details.read().ok());
    Ok(details.unwrap_or_else(|| {
        RunFailure::new(failure.type_name().unwrap_or("Other"), failure.to_string())
    }))
}
