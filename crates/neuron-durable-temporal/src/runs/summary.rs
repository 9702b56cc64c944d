//! Summaries of runs, from the server's data and the answers of workers.

use chrono::{DateTime, SubsecRound, Utc};
use neuron_durable::{RunStatus, RunSummary, WaitEvent, WaitsFor};
use temporalio_client::errors::WorkflowInteractionError;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest, Status as RpcStatus};
use temporalio_client::{NamespacedClient, WorkflowDescribeOptions, WorkflowQueryOptions};
use temporalio_common::protos::proto_ts_to_system_time;
use temporalio_common::protos::temporal::api::common::v1::WorkflowExecution;
use temporalio_common::protos::temporal::api::enums::v1::{
    WorkflowExecutionStatus as Status, WorkflowTaskFailedCause,
};
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::workflow::v1::{
    PendingChildExecutionInfo, PendingWorkflowTaskInfo, WorkflowExecutionInfo,
};
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    DescribeWorkflowExecutionRequest, GetWorkflowExecutionHistoryReverseRequest,
};

use super::end::End;
use super::patience::Patience;
use super::{TemporalRun, TemporalRuns};
use crate::AgentWorkflow;
use crate::agent_version::AgentVersion;
use crate::outcome::RunFailure;
use crate::wait::Waits;

/// Number of events at the end of a history in which a failed workflow task is searched.
const NEWEST_EVENTS: i32 = 20;

/// Attempt number of a workflow task from which a run counts as stalled, even if its history contains no failure. The
/// history contains only the failure of the first attempt, and a lost worker reports no failure.
const MANY_ATTEMPTS: i32 = 3;

/// The newest execution of a run, with data of the earlier executions that it continues.
pub(super) struct Chain {
    /// The server's data of the newest execution.
    pub(super) info: WorkflowExecutionInfo,
    /// Start of the run's first execution.
    pub(super) created_at: Option<DateTime<Utc>>,
    /// Number of times that the run continued as new.
    pub(super) continued: Option<usize>,
}

impl TemporalRuns {
    /// Returns the summary of a run. Queries the run's worker for the current wait of the run.
    ///
    /// # Errors
    ///
    /// The error of the server if the run cannot be read.
    pub(super) async fn summarise(
        &self,
        chain: Chain,
        patience: &Patience,
    ) -> Result<RunSummary, RpcStatus> {
        let Chain { info, created_at, continued } = chain;
        let id = info.execution.clone().unwrap_or_default().workflow_id;
        let mut summary = RunSummary::new(&id, RunStatus::Running);
        summary.created_at = created_at;
        summary.changed_at = closed_at(&info);
        summary.agent_version = AgentVersion::pinned(info.memo.as_ref()).into_text();
        summary.execution = continued;
        if let Some(end) = End::of(&self.client, &info).await? {
            summary.status = end.status;
            summary.reason = end.reason;
            summary.usage = end.usage;
            summary.waits_for = end.failure.and_then(|failure| decisions(*failure));
        } else if info.status() == Status::Paused {
            summary.status = RunStatus::Stalled;
            summary.reason = Some("it is paused on the server".into());
        } else {
            self.summarise_running(&mut summary, patience).await?;
        }
        Ok(summary)
    }

    /// Sets the status, the reason and the wait in the summary of a run that has not ended.
    async fn summarise_running(
        &self,
        summary: &mut RunSummary,
        patience: &Patience,
    ) -> Result<(), RpcStatus> {
        let run = self.get(&summary.id);
        let described = run.handle.describe(WorkflowDescribeOptions::default()).await;
        let described = described.map_err(rpc_status)?.into_raw();
        if let Some(task) = &described.pending_workflow_task {
            summary.reason = self.stalled(TemporalRun::execution(&summary.id), task).await?;
        } else if !described.pending_children.is_empty() {
            summary.reason = self.stalled_inside(described.pending_children.clone()).await?;
        }
        if summary.reason.is_some() {
            summary.status = RunStatus::Stalled;
        }
        if summary.reason.is_some() || described.pending_workflow_task.is_some() {
            return Ok(());
        }
        if described.pending_activities.is_empty() && described.pending_children.is_empty() {
            summary.status = RunStatus::Waiting;
            if let Some(waits) = run.waits(patience).await {
                match waits.now {
                    Some(wait) => summary.waits_for = Some(wait.into()),
                    // The run has continued since it was described.
                    None => summary.status = RunStatus::Running,
                }
            }
        }
        Ok(())
    }

    /// Returns the reason why an execution is stalled, or `None` if it is not stalled. `task` is the execution's
    /// pending workflow task.
    async fn stalled(
        &self,
        execution: WorkflowExecution,
        task: &PendingWorkflowTaskInfo,
    ) -> Result<Option<String>, RpcStatus> {
        let attempt = task.attempt;
        let reason = if attempt > 1 { self.failure(execution).await? } else { None };
        let many = || {
            format!(
                "its workflow task failed or was lost {} times: the logs of its workers say why",
                attempt - 1
            )
        };
        Ok(reason.or_else(|| (attempt >= MANY_ATTEMPTS).then(many)))
    }

    /// Returns the reason why an agent inside a tool call of the run is stalled, at any depth of nesting. Returns
    /// `None` if no such agent is stalled.
    async fn stalled_inside(
        &self,
        mut children: Vec<PendingChildExecutionInfo>,
    ) -> Result<Option<String>, RpcStatus> {
        let mut client = self.client.clone();
        while let Some(PendingChildExecutionInfo { workflow_id, run_id, .. }) = children.pop() {
            let execution = WorkflowExecution { workflow_id, run_id };
            let request = DescribeWorkflowExecutionRequest {
                namespace: client.namespace(),
                execution: Some(execution.clone()),
            };
            let described = client.describe_workflow_execution(request.into_request()).await;
            let described = match described {
                Ok(described) => described.into_inner(),
                // The child has not begun, or the server does not have its record any more.
                Err(status) if status.code() == Code::NotFound => continue,
                Err(status) => return Err(status),
            };
            if let Some(task) = &described.pending_workflow_task
                && let Some(reason) = self.stalled(execution, task).await?
            {
                return Ok(Some(format!("an agent inside a tool call stands still: {reason}")));
            }
            children.extend(described.pending_children);
        }
        Ok(None)
    }

    /// Returns the text of the failure of an execution's newest workflow task. Returns `None` if this task did not
    /// fail.
    async fn failure(&self, execution: WorkflowExecution) -> Result<Option<String>, RpcStatus> {
        let mut client = self.client.clone();
        let request = GetWorkflowExecutionHistoryReverseRequest {
            namespace: client.namespace(),
            execution: Some(execution),
            maximum_page_size: NEWEST_EVENTS,
            ..Default::default()
        };
        let history = client.get_workflow_execution_history_reverse(request.into_request()).await?;
        let events = history.into_inner().history.unwrap_or_default().events;
        for attributes in events.into_iter().filter_map(|event| event.attributes) {
            match attributes {
                Attributes::WorkflowTaskCompletedEventAttributes(_) => return Ok(None),
                Attributes::WorkflowTaskFailedEventAttributes(failed)
                    if failed.cause() != WorkflowTaskFailedCause::UnhandledCommand =>
                {
                    let text = failed.failure.unwrap_or_default().message;
                    return Ok(Some(text).filter(|text| !text.is_empty()));
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

impl TemporalRun {
    /// Queries the run's worker for the waits of the run. Returns `None` if no worker answers in time.
    pub(super) async fn waits(&self, patience: &Patience) -> Option<Waits> {
        let options = WorkflowQueryOptions::default();
        let asked = patience.wait(self.handle.query(AgentWorkflow::waits_for, (), options)).await?;
        match asked {
            Ok(waits) => Some(waits),
            Err(error) => {
                tracing::debug!(id = self.id, %error, "the waits of a run could not be queried");
                None
            }
        }
    }
}

/// Returns the gRPC status of an error. An error without a status becomes a status with the code `DataLoss`.
fn rpc_status(error: WorkflowInteractionError) -> RpcStatus {
    match error {
        WorkflowInteractionError::NotFound(status) | WorkflowInteractionError::Rpc(status) => {
            status
        }
        error => RpcStatus::data_loss(error.to_string()),
    }
}

/// Returns the decisions that a failed run needs, as a wait. Returns `None` if the run failed for another reason.
fn decisions(failure: RunFailure) -> Option<WaitsFor> {
    if !failure.needs_decisions() {
        return None;
    }
    let pending = failure.pending.map(|pending| Box::new(pending.without_messages()));
    Some(WaitsFor::new(WaitEvent::Approval { signal: None, pending }))
}

/// Returns the start time of an execution in microseconds, because the server's list has no higher precision. Returns
/// `None` if the server gave no valid time.
pub(super) fn started_at(info: &WorkflowExecutionInfo) -> Option<DateTime<Utc>> {
    let time = info.start_time.as_ref().and_then(proto_ts_to_system_time);
    time.map(|time| DateTime::<Utc>::from(time).trunc_subsecs(6))
}

/// Returns the end time of an execution. Returns `None` if the execution has not ended.
pub(super) fn closed_at(info: &WorkflowExecutionInfo) -> Option<DateTime<Utc>> {
    info.close_time.as_ref().and_then(proto_ts_to_system_time).map(DateTime::from)
}
