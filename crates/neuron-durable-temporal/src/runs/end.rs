//! The end of a run on the server ([`End`]).

use neuron_runtime::RunStatus;
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
use crate::{AgentWorkflow, RunFailure, TemporalError};

/// The end of a run.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: RunStatus,
    pub(super) reason: Option<String>,
    pub(super) failure: Option<Box<RunFailure>>,
    pub(super) usage: Option<TokenUsage>,
}

impl End {
    /// Reads how an execution ended, from its last event if that says more than its status. `None` if it has not ended.
    ///
    /// # Errors
    ///
    /// The server does not show the event.
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
                    end.usage = Some(outcome.result.usage);
                    return Ok(Some(end));
                }
                Err(error) => error.to_string(),
            },
            Err(WorkflowGetResultError::Failed(error)) => match failure(*error) {
                TemporalError::Failed(failure) => {
                    end.reason = Some(failure.message.clone());
                    end.failure = Some(failure);
                    return Ok(Some(end));
                }
                error => error.to_string(),
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

    /// The end as a text for whoever comes too late.
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

/// Reads the details of a failure, if a run of this crate wrote them.
pub(super) fn failure(error: IncomingError) -> TemporalError {
    let IncomingError::Application(failure) = &error else {
        return TemporalError::Ended(error.to_string());
    };
    let details = failure.details::<Json<RunFailure>>();
    let details = details.ok().flatten().and_then(|details| details.read().ok());
    let details = details.unwrap_or_else(|| {
        RunFailure::new(failure.type_name().unwrap_or("Other"), failure.to_string())
    });
    TemporalError::Failed(Box::new(details))
}
