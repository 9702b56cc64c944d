//! Implements [`DurableRuns`] for [`TemporalRuns`].

use std::cmp::Reverse;
use std::collections::HashMap;
use std::error::Error as _;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::{StreamExt, TryStreamExt, stream};
use neuron_durable::{DurableRuns, RunStatus, RunSummary, RunsError};
use neuron_types::{ApprovalDecisions, BoxError};
use serde_json::Value;
use temporalio_client::errors::WorkflowInteractionError;
use temporalio_client::tonic::{Code, Status as RpcStatus};
use temporalio_client::{Client, WorkflowDescribeOptions, WorkflowListOptions};
use temporalio_common::protos::temporal::api::common::v1::WorkflowExecution;
use temporalio_common::protos::temporal::api::enums::v1::WorkflowExecutionStatus as Status;
use temporalio_common::protos::temporal::api::workflow::v1::WorkflowExecutionInfo;

use super::end::End;
use super::patience::Patience;
use super::summary::{Chain, started_at};
use super::{TemporalRun, TemporalRuns};
use crate::TemporalError;

/// Type of the workflow that drives a run.
pub(super) const TYPE: &str = "neuron_agent";

/// Maximum time for the answer of a worker to a single query.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time limits for queries to workers while runs are listed. The first limit applies to a single query, and the second
/// to all queries together.
const PATIENCE_IN_LIST: (Duration, Duration) = (Duration::from_secs(1), PATIENCE);

/// Number of runs that are read concurrently for a list.
const AT_ONCE: usize = 16;

/// Operates the runs of the task queue. The server's list of workflows may be a second old.
///
/// If a worker does not answer a query, [`waits_for`](RunSummary::waits_for) of its run is `None` in the list.
impl DurableRuns for TemporalRuns {
    async fn list(&self) -> Result<Vec<RunSummary>, RunsError> {
        let query = format!("TaskQueue = {} AND WorkflowType = '{TYPE}'", quoted(&self.task_queue));
        let executions = self.executions(query).await.map_err(RunsError::Engine)?;
        let mut runs: HashMap<String, Vec<_>> = HashMap::new();
        for info in executions {
            runs.entry(id_of(&info)).or_default().push(info);
        }
        let mut runs: Vec<_> = runs.into_values().filter_map(chain).collect();
        runs.sort_by_key(|run| run.created_at);
        let patience = Patience::new(PATIENCE_IN_LIST.0, PATIENCE_IN_LIST.1);
        let summaries = stream::iter(runs).map(async |run| {
            let (id, created_at) = (id_of(&run.info), run.created_at);
            let summary = match self.summarise(run, &patience).await {
                Ok(summary) => Some(summary),
                Err(status) if status.code() == Code::NotFound && self.is_deleted(&id).await => {
                    None
                }
                Err(status) => Some(damaged(id, created_at, status)?),
            };
            Ok(summary)
        });
        summaries.buffered(AT_ONCE).try_filter_map(async |run| Ok(run)).try_collect().await
    }

    async fn inspect(&self, id: &str) -> Result<RunSummary, RunsError> {
        let info = self.describe(id).await?;
        let query = format!("WorkflowId = {} AND WorkflowType = '{TYPE}'", quoted(id));
        let mut executions = self.executions(query).await.map_err(RunsError::Engine)?;
        // The server's list may not have the newest execution yet.
        executions.retain(|listed| listed.execution != info.execution);
        executions.push(info);
        let run = chain(executions).ok_or_else(|| not_found(id))?;
        self.summarise(run, &Patience::new(PATIENCE, PATIENCE))
            .await
            .map_err(|status| of_status(id, status))
    }

    async fn signal(&self, id: &str, name: &str, value: Value) -> Result<(), RunsError> {
        let info = self.describe(id).await?;
        let ended = End::of(&self.client, &info).await;
        if let Some(ended) = ended.map_err(|status| of_status(id, status))? {
            return Err(RunsError::Ended { id: id.to_owned(), reason: ended.text(&info) });
        }
        let run = self.get(id);
        let waits = run.waits(&Patience::new(PATIENCE, PATIENCE)).await;
        let missed = match waits {
            Some(waits) => waits.ended.get(name).copied(),
            None => self.missed(id, name).await.map_err(|status| of_status(id, status))?,
        };
        if let Some(time) = missed {
            let reason = format!("its wait for the signal {name:?} ended at its deadline, {time}");
            return Err(RunsError::Ended { id: id.to_owned(), reason });
        }
        run.signal(name, &value).await.map_err(of_temporal)
    }

    async fn cancel(&self, id: &str) -> Result<(), RunsError> {
        self.describe(id).await?;
        self.get(id).cancel().await.map_err(of_temporal)
    }

    /// Starts the run again under its own id, on the same task queue, and returns the id.
    async fn revive(&self, id: &str, decisions: ApprovalDecisions) -> Result<String, RunsError> {
        self.start_again(id, decisions).await?;
        Ok(id.to_owned())
    }
}

impl TemporalRuns {
    /// Returns the server's data of the newest execution of a run. Returns [`RunsError::NotFound`] if no run of an
    /// agent has this id.
    pub(super) async fn describe(&self, id: &str) -> Result<WorkflowExecutionInfo, RunsError> {
        match self.get(id).handle.describe(WorkflowDescribeOptions::default()).await {
            Ok(described) if described.workflow_type() == TYPE => {
                Ok(described.into_raw().workflow_execution_info.unwrap_or_default())
            }
            Ok(_) | Err(WorkflowInteractionError::NotFound(_)) => Err(not_found(id)),
            Err(error) => Err(RunsError::Engine(error.into())),
        }
    }

    /// Returns `true` if the server has no run with this id any more.
    async fn is_deleted(&self, id: &str) -> bool {
        matches!(self.describe(id).await, Err(RunsError::NotFound { .. }))
    }

    /// Returns the executions that match a query to the server's list of workflows.
    async fn executions(&self, query: String) -> Result<Vec<WorkflowExecutionInfo>, BoxError> {
        let found = Client::list_workflows(&self.client, query, WorkflowListOptions::default());
        let found = found.map_ok(|execution| execution.into_raw());
        Ok(found.try_collect().await?)
    }
}

impl TemporalRun {
    /// Returns the identifier of a run's newest execution, for requests that are not methods of the SDK's client.
    pub(super) fn execution(id: &str) -> WorkflowExecution {
        WorkflowExecution { workflow_id: id.to_owned(), run_id: String::new() }
    }
}

/// Returns the newest execution of a run, the start of the run's first execution, and the number of earlier executions.
/// Returns `None` for an empty list.
fn chain(mut executions: Vec<WorkflowExecutionInfo>) -> Option<Chain> {
    executions.sort_by_key(|info| Reverse(started_at(info)));
    let mut executions = executions.into_iter();
    let info = executions.next()?;
    let earlier = executions.take_while(|info| info.status() == Status::ContinuedAsNew);
    let earlier: Vec<_> = earlier.collect();
    let created_at = started_at(earlier.last().unwrap_or(&info));
    Some(Chain { created_at, continued: Some(earlier.len()), info })
}

/// Quotes a text for a query to the server's list.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn not_found(id: &str) -> RunsError {
    RunsError::NotFound { id: id.to_owned() }
}

/// Converts the server's error for a request about a run.
pub(super) fn of_status(id: &str, status: RpcStatus) -> RunsError {
    match status.code() {
        Code::NotFound => not_found(id),
        _ => RunsError::Engine(status.into()),
    }
}

/// Returns the summary of a run whose data the server cannot read. `status` is the server's error.
///
/// # Errors
///
/// Returns [`RunsError::Engine`] if `status` has another cause, for example a lost connection or a missing permission.
fn damaged(
    id: String,
    created_at: Option<DateTime<Utc>>,
    status: RpcStatus,
) -> Result<RunSummary, RunsError> {
    use Code::{DataLoss, Internal, NotFound, Unavailable, Unknown};
    let may_be = matches!(status.code(), DataLoss | Internal | NotFound | Unavailable | Unknown);
    // Only an error of the connection has a source.
    if !may_be || status.source().is_some() {
        return Err(RunsError::Engine(status.into()));
    }
    let mut summary = RunSummary::new(id, RunStatus::Damaged);
    summary.created_at = created_at;
    summary.reason = Some(format!("the server cannot read it: {}", status.message()));
    Ok(summary)
}

/// Returns the id of an execution's run.
fn id_of(info: &WorkflowExecutionInfo) -> String {
    info.execution.clone().unwrap_or_default().workflow_id
}

/// Converts an error of this crate.
fn of_temporal(error: TemporalError) -> RunsError {
    match error {
        TemporalError::NotFound { id } => RunsError::NotFound { id },
        TemporalError::AlreadyEnded { id, reason } => RunsError::Ended { id, reason },
        error => RunsError::Engine(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_run_is_listed_as_damaged_unless_the_connection_failed() {
        let listed = |status| damaged("r".into(), None, status);
        for status in [RpcStatus::data_loss, RpcStatus::internal, RpcStatus::unavailable] {
            let run = listed(status("internal history service error".to_owned())).unwrap();
            assert_eq!(run.status, RunStatus::Damaged);
            assert!(run.reason.unwrap().ends_with(": internal history service error"));
        }
        let cut = RpcStatus::from_error(std::io::Error::other("cut").into());
        for status in [cut, RpcStatus::permission_denied("no"), RpcStatus::resource_exhausted("no")]
        {
            let text = status.to_string();
            let failed = listed(status);
            assert!(matches!(&failed, Err(RunsError::Engine(_))), "{text}: {failed:?}");
        }
    }
}
