//! [`Heartbeat`], which reports to the server that an activity's worker lives, and [`while_held`], which makes sure that
//! the activity is still this worker's.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use neuron_runtime::Moment;
use neuron_types::{DurableError, WasmCompatSend};
use temporalio_client::errors::WorkflowInteractionError;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest};
use temporalio_client::{Client, NamespacedClient, WorkflowDescribeOptions};
use temporalio_common::protos::proto_ts_to_system_time;
use temporalio_common::protos::temporal::api::workflowservice::v1::RecordActivityTaskHeartbeatRequest;
use temporalio_sdk::activities::ActivityContext;
use tokio::task::JoinHandle;

use crate::AgentWorkflow;

/// The lease of an activity without a heartbeat timeout, which the server waits for longer.
const LONGEST_LEASE: Duration = Duration::from_secs(3600);

/// The time limit of a workflow task, if the server does not say it.
const DEFAULT_TASK_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a server that did not answer was asked.
const PAUSE: Duration = Duration::from_millis(200);

/// Beats in a task of its own until it is dropped. So a tool that blocks its thread lives too. In the responses the server
/// says that the activity is cancelled.
pub(crate) struct Heartbeat(Option<JoinHandle<()>>);

impl Heartbeat {
    /// Beats three times in the time that the server waits.
    pub(crate) fn start(ctx: &ActivityContext) -> Self {
        let Some(timeout) = ctx.info().heartbeat_timeout else {
            return Self(None);
        };
        let interval = (timeout / 3).max(Duration::from_millis(50));
        let ctx = ctx.clone();
        Self(Some(tokio::spawn(async move {
            loop {
                // `()` is a payload that always fits.
                let _ = ctx.record_heartbeat(()).await;
                tokio::time::sleep(interval).await;
            }
        })))
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        if let Some(beats) = &self.0 {
            beats.abort();
        }
    }
}

/// Polls the work of an activity only while the server confirms that this worker holds it. The server is asked before the
/// first poll, and after a pause of the process. The lease is the heartbeat timeout, after which the server gives the
/// activity up.
///
/// A local activity belongs to its workflow's task, so its work is polled in any case: see [`check_task`].
///
/// # Errors
///
/// The activity is lost. `work` is dropped then.
pub(crate) async fn while_held<T>(
    ctx: &ActivityContext,
    work: impl Future<Output = T> + WasmCompatSend,
) -> Result<T, DurableError> {
    let info = ctx.info();
    if info.is_local {
        return Ok(work.await);
    }
    let lease = info.heartbeat_timeout.unwrap_or(LONGEST_LEASE);
    let (client, task_token) = (ctx.client(), info.task_token.clone());
    let claim = Claim { client, task_token, lease, proven: Mutex::default() };
    neuron_runtime::while_held(lease, || claim.prove(), work).await
}

/// Checks before a local activity begins that the task of its workflow, which the server started at this time, is still this
/// worker's. A process that was stopped finds tasks that the server gave to another worker since.
///
/// A later attempt is not checked: the SDK reports to the server in good time that the task goes on, and cancels the
/// activity if the server has given the task up.
///
/// # Errors
///
/// The task is another one. The error is the time after which the SDK has cancelled the activity.
pub(crate) async fn check_task(
    ctx: &ActivityContext,
    started: Option<SystemTime>,
) -> Result<(), Duration> {
    let Some(run) = ctx.workflow_handle::<AgentWorkflow>().filter(|_| ctx.info().attempt == 1)
    else {
        return Ok(());
    };
    match run.describe(WorkflowDescribeOptions::default()).await {
        Ok(described) => {
            let described = described.into_raw();
            let task = described.pending_workflow_task;
            let its_start = task.and_then(|task| proto_ts_to_system_time(&task.started_time?));
            if its_start.is_some() && its_start == started {
                return Ok(());
            }
            let timeout = described.execution_config;
            let timeout = timeout.and_then(|config| config.default_workflow_task_timeout);
            Err(timeout.and_then(|time| time.try_into().ok()).unwrap_or(DEFAULT_TASK_TIMEOUT))
        }
        Err(WorkflowInteractionError::NotFound(_)) => Err(DEFAULT_TASK_TIMEOUT),
        // The call costs no more than its price.
        Err(error) => {
            tracing::debug!(%error, "the server does not confirm a workflow task");
            Ok(())
        }
    }
}

/// The claim of this process on an activity.
struct Claim {
    client: Client,
    task_token: Vec<u8>,
    lease: Duration,
    /// The moment before the last proof.
    proven: Mutex<Option<Moment>>,
}

impl Claim {
    /// Asks the server itself, since the SDK's heartbeats say nothing about when the server had them. Waits for a server
    /// that is not there.
    async fn prove(&self) -> Result<(), DurableError> {
        loop {
            let now = Moment::now();
            let request = RecordActivityTaskHeartbeatRequest {
                task_token: self.task_token.clone(),
                namespace: self.client.namespace(),
                identity: self.client.identity(),
                ..Default::default()
            };
            let mut client = self.client.clone();
            match client.record_activity_task_heartbeat(request.into_request()).await {
                Ok(_) => {
                    *self.proven.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
                    return Ok(());
                }
                Err(status) if status.code() == Code::NotFound => return self.not_found(),
                Err(status) => {
                    tracing::debug!(%status, "the server does not confirm an activity; it is asked again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Within the lease the server gives an activity up only if its run has ended. The SDK cancels the activity then, and
    /// the tool has time to end.
    fn not_found(&self) -> Result<(), DurableError> {
        let proven = *self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        if proven.is_some_and(|proven| proven.age() < self.lease) {
            return Ok(());
        }
        let text = "the server gave the activity up: this process was silent for too long";
        Err(DurableError::Other(text.into()))
    }
}
