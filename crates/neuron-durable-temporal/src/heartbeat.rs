//! Heartbeats of activities ([`Heartbeat`]), and work that runs only while this worker holds its activity
//! ([`while_held`]).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use neuron_durable::Moment;
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

/// Lease of an activity without a heartbeat timeout (one hour). A lease is the time for which the server's confirmation
/// that a worker holds an activity stays valid. The server gives up such an activity only after a longer time.
const LONGEST_LEASE: Duration = Duration::from_secs(3600);

/// Timeout of a workflow task, if the server does not return it.
const DEFAULT_TASK_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause before a request to the server is repeated.
const PAUSE: Duration = Duration::from_millis(200);

/// Sends heartbeats from a separate task until it is dropped, so that a tool may block its thread. The server's
/// response to a heartbeat reports the cancellation of the activity.
pub(crate) struct Heartbeat(Option<JoinHandle<()>>);

impl Heartbeat {
    /// Starts to send three heartbeats in each heartbeat timeout of the activity. Sends none if the activity has no
    /// heartbeat timeout.
    pub(crate) fn start(ctx: &ActivityContext) -> Self {
        let Some(timeout) = ctx.info().heartbeat_timeout else {
            return Self(None);
        };
        let interval = (timeout / 3).max(Duration::from_millis(50));
        let ctx = ctx.clone();
        Self(Some(tokio::spawn(async move {
            loop {
                // An error is not possible here, because `()` can always be encoded.
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

/// Polls `work` only while the server confirms that this worker holds the activity. Asks the server before the first
/// poll, and again after the process was paused.
///
/// A confirmation is valid for one heartbeat timeout. A worker that is silent for longer loses the activity to another
/// worker.
///
/// The work of a local activity is always polled, because the server does not know local activities. Call
/// [`check_task`] before a local activity instead.
///
/// # Errors
///
/// Returns an error and drops `work` if this worker has lost the activity.
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
    neuron_durable::while_held(lease, || claim.prove(), work).await
}

/// Checks that this worker still holds the workflow task of a local activity that is about to begin. `started` is the
/// time at which the server started the task.
///
/// A process that was paused may have lost the task to another worker. Only the first attempt is checked, because the
/// SDK notices a lost task during retries and cancels the activity.
///
/// # Errors
///
/// Returns a delay if another worker has the task. The caller must delay the next attempt by this time, which is the
/// timeout of a workflow task. The SDK cancels the activity before the delay is over.
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
        // If the check fails, the call is made all the same. At worst one model call is paid twice.
        Err(error) => {
            tracing::debug!(%error, "the server does not confirm a workflow task");
            Ok(())
        }
    }
}

/// Confirms with the server that this process still holds an activity, and stores the time of the last confirmation.
struct Claim {
    client: Client,
    task_token: Vec<u8>,
    lease: Duration,
    /// The moment just before the last heartbeat that the server confirmed. `None` if no heartbeat was confirmed.
    proven: Mutex<Option<Moment>>,
}

impl Claim {
    /// Sends a heartbeat to confirm that this worker still holds the activity. Repeats it until the server responds.
    ///
    /// The heartbeats of the SDK do not report when the server received them.
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

    /// Handles the response "not found" to a heartbeat.
    ///
    /// Returns `Ok` if the last confirmation is younger than the lease, because the response then means that the run
    /// has ended. The SDK cancels the activity, and the tool has time to end.
    ///
    /// Returns an error if the last confirmation is older, because another worker may hold the activity.
    fn not_found(&self) -> Result<(), DurableError> {
        let proven = *self.proven.lock().unwrap_or_else(PoisonError::into_inner);
        if proven.is_some_and(|proven| proven.age() < self.lease) {
            return Ok(());
        }
        let text = "the server gave the activity up: this process was silent for too long";
        Err(DurableError::Other(text.into()))
    }
}
