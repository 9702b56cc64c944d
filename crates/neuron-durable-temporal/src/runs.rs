//! A client that starts and operates runs from any process ([`TemporalRuns`]).

mod end;
mod missed;
mod operate;
mod patience;
mod revive;
mod summary;

use std::fmt;
use std::time::Duration;

use neuron_durable::RunOutcome;
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
use crate::{AgentWorkflow, Signal, TemporalError, TemporalOptions};

/// A client that starts and operates the runs of an agent, for example in a web server. It connects only to the
/// Temporal server, and not to the [workers](crate::AgentWorker).
///
/// # Example
///
/// ```no_run
/// use neuron_durable_temporal::TemporalRuns;
/// use temporalio_client::Client;
///
/// # async fn ask(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let runs = TemporalRuns::new(client, "support");
/// let run = runs.start("ticket-17", "My invoice is wrong.").await?;
/// println!("{}", run.outcome().await?.into_result()?.response);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TemporalRuns {
    client: Client,
    task_queue: String,
    task_timeout: Duration,
    agent_version: AgentVersion,
}

impl TemporalRuns {
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
    /// [version](neuron_durable::DurableOptions::agent_version) of the options.
    #[must_use]
    pub fn options(self, options: impl Into<TemporalOptions>) -> Self {
        let options = options.into();
        let client = match &options.payload_store {
            // A client does not retry, so the caller receives an error of the store immediately.
            Some(store) => with_store(self.client, store.clone(), Duration::ZERO),
            None => self.client,
        };
        let agent_version = AgentVersion::new(options.durable.agent_version);
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
    ) -> Result<TemporalRun, TemporalError> {
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
    pub fn get(&self, id: impl Into<String>) -> TemporalRun {
        let id = id.into();
        let handle = self.client.get_workflow_handle::<AgentWorkflow>(id.clone());
        TemporalRun { id, handle }
    }
}

impl fmt::Debug for TemporalRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemporalRuns")
            .field("task_queue", &self.task_queue)
            .field("task_timeout", &self.task_timeout)
            .finish_non_exhaustive()
    }
}

/// A handle to a run on the Temporal server.
pub struct TemporalRun {
    id: String,
    handle: WorkflowHandle<Client, AgentWorkflow>,
}

impl TemporalRun {
    /// Returns the id of the run, which is also the id of its workflow.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the end of the run, through all its executions, and returns the agent's result or the error that ended
    /// the run.
    ///
    /// Parts of the result are left out if the outcome is nested too deeply. Without a payload store, they are also left
    /// out if the outcome is longer than the [record limit](neuron_durable::DurableOptions::record_limit).
    ///
    /// # Errors
    ///
    /// - [`TemporalError::Cancelled`] if the run was cancelled.
    /// - [`TemporalError::Ended`] if the run was terminated or timed out.
    /// - [`TemporalError::NotFound`] if the run does not exist.
    /// - [`TemporalError::Other`] if the outcome cannot be read.
    pub async fn outcome(&self) -> Result<RunOutcome, TemporalError> {
        match self.handle.get_result(WorkflowGetResultOptions::default()).await {
            Ok(outcome) => {
                let outcome = outcome.read();
                let mut outcome = outcome.map_err(|error| TemporalError::Other(error.into()))?;
                outcome.run_id.clone_from(&self.id);
                Ok(outcome)
            }
            Err(WorkflowGetResultError::Failed(error)) => {
                Ok(end::failure(*error)?.into_outcome(&self.id))
            }
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

impl fmt::Debug for TemporalRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemporalRun").field("id", &self.id).finish_non_exhaustive()
    }
}
