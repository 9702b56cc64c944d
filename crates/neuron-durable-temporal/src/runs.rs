//! A client that starts and operates runs from any process ([`AgentRuns`]).

mod end;
mod missed;
mod operate;
mod patience;
mod revive;
mod summary;

use std::fmt;
use std::time::Duration;

use neuron_types::{BoxError, PendingApproval, Start};
use serde::Serialize;
use temporalio_client::errors::{
    WorkflowGetResultError, WorkflowInteractionError, WorkflowQueryError, WorkflowStartError,
};
use temporalio_client::{
    Client, WorkflowCancelOptions, WorkflowDescribeOptions, WorkflowGetResultOptions,
    WorkflowHandle, WorkflowQueryOptions, WorkflowSignalOptions, WorkflowStartOptions,
};

use self::end::End;
use crate::agent_version::AgentVersion;
use crate::json::Json;
use crate::payload_store::with_store;
use crate::signal_input::SignalInput;
use crate::workflow::RunInput;
use crate::{AgentWorkflow, RunOutcome, Signal, TemporalError, TemporalOptions};

/// A client that starts and operates the runs of an agent, for example in a web server. It connects only to the
/// Temporal server, and not to the [workers](crate::AgentWorker).
///
/// # Example
///
/// ```no_run
/// use neuron_durable_temporal::{AgentRuns, TemporalError};
/// use temporalio_client::Client;
///
/// # async fn ask(client: Client) -> Result<(), TemporalError> {
/// let runs = AgentRuns::new(client, "support");
/// let run = runs.start("ticket-17", "My invoice is wrong.").await?;
/// println!("{}", run.result().await?.result.response);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AgentRuns {
    client: Client,
    task_queue: String,
    task_timeout: Duration,
    agent_version: AgentVersion,
}

impl AgentRuns {
    /// Creates a client for the runs of the agent on this task queue.
    #[must_use]
    pub fn new(client: Client, task_queue: impl Into<String>) -> Self {
        Self {
            client,
            task_queue: task_queue.into(),
            task_timeout: Duration::from_secs(10),
            agent_version: AgentVersion::default(),
        }
    }

    /// Uses the payload store of the workers' options, if they have one. Pins new runs to the
    /// [version](TemporalOptions::agent_version) of the options.
    #[must_use]
    pub fn options(self, options: &TemporalOptions) -> Self {
        let client = match &options.payload_store {
            // A client does not retry, so the caller receives an error of the store immediately.
            Some(store) => with_store(self.client, store.clone(), Duration::ZERO),
            None => self.client,
        };
        let agent_version = AgentVersion::new(options.agent_version.clone());
        Self { client, agent_version, ..self }
    }

    /// Sets the timeout of a workflow task in new runs. Default: 10 seconds. If a worker does not respond for this
    /// long, the server gives the run to another worker.
    ///
    /// With a shorter timeout, a run recovers faster, but its history grows faster during local model calls. The worker
    /// reports to the server within each timeout, and each report adds three events.
    #[must_use]
    pub fn task_timeout(self, timeout: Duration) -> Self {
        Self { task_timeout: timeout, ..self }
    }

    /// Starts a run, whose workflow gets the id `id`.
    ///
    /// # Errors
    ///
    /// [`TemporalError::AlreadyStarted`] if a run with this id has not ended. [`TemporalError::Other`] if the server
    /// rejects the request, for example because `start` is too long.
    pub async fn start(
        &self,
        id: impl Into<String>,
        start: impl Into<Start>,
    ) -> Result<AgentRun, TemporalError> {
        let id = id.into();
        let input =
            Json::new(&RunInput::new(start)).map_err(|error| TemporalError::Other(error.into()))?;
        let options = WorkflowStartOptions::new(self.task_queue.clone(), id.clone())
            .task_timeout(self.task_timeout)
            .maybe_memo(self.agent_version.to_memo())
            .build();
        match self.client.start_workflow(AgentWorkflow::run, input, options).await {
            Ok(_) => Ok(self.get(id)),
            Err(WorkflowStartError::AlreadyStarted { .. }) => {
                Err(TemporalError::AlreadyStarted { id })
            }
            Err(error) => Err(TemporalError::Other(error.into())),
        }
    }

    /// Returns a handle to the run with this id. Does not check that the run exists.
    pub fn get(&self, id: impl Into<String>) -> AgentRun {
        let id = id.into();
        let handle = self.client.get_workflow_handle::<AgentWorkflow>(id.clone());
        AgentRun { id, handle }
    }
}

impl fmt::Debug for AgentRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentRuns")
            .field("task_queue", &self.task_queue)
            .field("task_timeout", &self.task_timeout)
            .finish_non_exhaustive()
    }
}

/// A handle to a run on the Temporal server.
pub struct AgentRun {
    id: String,
    handle: WorkflowHandle<Client, AgentWorkflow>,
}

impl AgentRun {
    /// Returns the id of the run, which is also the id of its workflow.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the end of the run, through all its executions, and returns the outcome.
    ///
    /// # Errors
    ///
    /// - [`TemporalError::Failed`] if the run ended with an error.
    /// - [`TemporalError::Cancelled`] if the run was cancelled.
    /// - [`TemporalError::Ended`] if the run was terminated or timed out.
    /// - [`TemporalError::NotFound`] if the run does not exist.
    /// - [`TemporalError::Other`] if the outcome cannot be read.
    pub async fn result(&self) -> Result<RunOutcome, TemporalError> {
        match self.handle.get_result(WorkflowGetResultOptions::default()).await {
            Ok(outcome) => outcome.read().map_err(|error| TemporalError::Other(error.into())),
            Err(WorkflowGetResultError::Failed(error)) => Err(end::failure(*error)),
            Err(WorkflowGetResultError::Cancelled { .. }) => Err(TemporalError::Cancelled),
            Err(WorkflowGetResultError::NotFound(_)) => Err(self.not_found()),
            Err(
                error @ (WorkflowGetResultError::Terminated { .. }
                | WorkflowGetResultError::TimedOut),
            ) => Err(TemporalError::Ended(error.to_string())),
            Err(error) => Err(TemporalError::Other(error.into())),
        }
    }

    /// Sends a signal to the run. The signal stays queued until the run waits for this name.
    ///
    /// # Errors
    ///
    /// [`TemporalError::NotFound`] if the run does not exist. [`TemporalError::AlreadyEnded`] if the run has ended.
    /// [`TemporalError::Other`] if the value cannot be serialised, or the request failed.
    pub async fn signal(&self, name: &str, value: &impl Serialize) -> Result<(), TemporalError> {
        let other = |error: BoxError| TemporalError::Other(error);
        let value = serde_json::to_value(value).map_err(|error| other(error.into()))?;
        let signal = SignalInput::new(&Signal::new(name, value));
        let signal = signal.map_err(|error| other(error.into()))?;
        let options = WorkflowSignalOptions::default();
        let sent = self.handle.signal(AgentWorkflow::deliver, signal, options).await;
        match sent {
            Ok(()) => Ok(()),
            Err(error) => Err(self.interaction(error).await),
        }
    }

    /// Queries a worker for the calls that wait for a decision. The returned value does not contain the conversation.
    /// Returns `None` if the run does not wait for decisions.
    ///
    /// # Errors
    ///
    /// [`TemporalError::NotFound`] if the run does not exist. [`TemporalError::Other`] if no worker answers.
    pub async fn pending(&self) -> Result<Option<PendingApproval>, TemporalError> {
        let options = WorkflowQueryOptions::default();
        match self.handle.query(AgentWorkflow::pending, (), options).await {
            Ok(pending) => Ok(pending),
            Err(WorkflowQueryError::NotFound(_)) => Err(self.not_found()),
            Err(error) => Err(TemporalError::Other(error.into())),
        }
    }

    /// Cancels the run, which then ends at its next step. A running tool is cancelled with its next heartbeat, and the
    /// run does not wait for it.
    ///
    /// # Errors
    ///
    /// [`TemporalError::NotFound`] if the run does not exist. [`TemporalError::AlreadyEnded`] if the run has ended.
    /// [`TemporalError::Other`] if the request failed.
    pub async fn cancel(&self) -> Result<(), TemporalError> {
        match self.handle.cancel(WorkflowCancelOptions::default()).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.interaction(error).await),
        }
    }

    /// Returns the history of the run's newest execution as JSON, for [`replay_history`](crate::replay_history). The
    /// history contains the responses of the model and the arguments of the tools.
    ///
    /// # Errors
    ///
    /// [`TemporalError::Other`] if the server does not return the history.
    pub async fn history(&self) -> Result<Vec<u8>, TemporalError> {
        let history = self.handle.fetch_history(Default::default()).to_json().await;
        history.map_err(|error| TemporalError::Other(error.into()))
    }

    /// Converts the error of a request to a run. The server reports "not found" for an ended run too, so this method
    /// then asks if the run has ended.
    async fn interaction(&self, error: WorkflowInteractionError) -> TemporalError {
        let WorkflowInteractionError::NotFound(_) = error else {
            return TemporalError::Other(error.into());
        };
        match self.handle.describe(WorkflowDescribeOptions::default()).await {
            Ok(described) => {
                let info = described.into_raw().workflow_execution_info.unwrap_or_default();
                match End::of(self.handle.client(), &info).await {
                    Ok(Some(end)) => {
                        let (id, reason) = (self.id.clone(), end.text(&info));
                        TemporalError::AlreadyEnded { id, reason }
                    }
                    Ok(None) => self.not_found(),
                    Err(status) => TemporalError::Other(status.into()),
                }
            }
            Err(WorkflowInteractionError::NotFound(_)) => self.not_found(),
            Err(error) => TemporalError::Other(error.into()),
        }
    }

    fn not_found(&self) -> TemporalError {
        TemporalError::NotFound { id: self.id.clone() }
    }
}

impl fmt::Debug for AgentRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentRun").field("id", &self.id).finish_non_exhaustive()
    }
}
