//! The client that starts and operates runs from any process ([`AgentRuns`]).

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

/// Starts and operates the runs of an agent, for example from a web server. It shares only the server and the name
/// of the queue with the [workers](crate::AgentWorker).
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
    /// Speaks to the runs of the agent on this task queue.
    #[must_use]
    pub fn new(client: Client, task_queue: impl Into<String>) -> Self {
        Self {
            client,
            task_queue: task_queue.into(),
            task_timeout: Duration::from_secs(10),
            agent_version: AgentVersion::default(),
        }
    }

    /// Uses the payload store of the workers' options, if they have one, and pins new runs to their
    /// [version](TemporalOptions::agent_version).
    #[must_use]
    pub fn options(self, options: &TemporalOptions) -> Self {
        let client = match &options.payload_store {
            // Whoever asks hears at once that it fails.
            Some(store) => with_store(self.client, store.clone(), Duration::ZERO),
            None => self.client,
        };
        let agent_version = AgentVersion::new(options.agent_version.clone());
        Self { client, agent_version, ..self }
    }

    /// Sets the time after which the server gives the run of a silent worker to another one. Default: ten
    /// seconds. It is a part of the time in which a run recovers. A local call of the model reports at this
    /// interval, with three events each time.
    #[must_use]
    pub fn task_timeout(self, timeout: Duration) -> Self {
        Self { task_timeout: timeout, ..self }
    }

    /// Starts a run. Its id is the workflow's, and must not be that of a run that goes on.
    ///
    /// # Errors
    ///
    /// [`TemporalError::AlreadyStarted`] when there is one; [`TemporalError::Other`] when the server does
    /// not take the start, for instance because it is too long.
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

    /// Speaks to the run with this id. Whether there is one shows with the first call.
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
    /// The workflow's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the run's end, also through its executions.
    ///
    /// # Errors
    ///
    /// How it ended, if not with a result: [`TemporalError::Failed`], [`TemporalError::Cancelled`],
    /// [`TemporalError::Ended`]. [`TemporalError::NotFound`] when there is no such run.
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

    /// Sends a signal to the run, which takes it when it waits for one of that name.
    ///
    /// # Errors
    ///
    /// [`TemporalError::NotFound`] when there is no such run; [`TemporalError::AlreadyEnded`] when it ended.
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

    /// Returns the calls that wait for a decision, without the conversation. `None` if the run does not wait. A
    /// worker must run to answer.
    ///
    /// # Errors
    ///
    /// [`TemporalError::NotFound`] when there is no such run; [`TemporalError::Other`] when no worker
    /// answers.
    pub async fn pending(&self) -> Result<Option<PendingApproval>, TemporalError> {
        let options = WorkflowQueryOptions::default();
        match self.handle.query(AgentWorkflow::pending, (), options).await {
            Ok(pending) => Ok(pending),
            Err(WorkflowQueryError::NotFound(_)) => Err(self.not_found()),
            Err(error) => Err(TemporalError::Other(error.into())),
        }
    }

    /// Cancels the run. It ends at its next step; a running tool hears of it with its next heartbeat, and
    /// is not waited for.
    ///
    /// # Errors
    ///
    /// [`TemporalError::NotFound`] when there is no such run; [`TemporalError::AlreadyEnded`] when it ended.
    pub async fn cancel(&self) -> Result<(), TemporalError> {
        match self.handle.cancel(WorkflowCancelOptions::default()).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.interaction(error).await),
        }
    }

    /// The history of the run's newest execution, for [`replay_history`](crate::replay_history). It
    /// holds what the model answered and the tools were given.
    ///
    /// # Errors
    ///
    /// [`TemporalError::Other`] when the server does not give it.
    pub async fn history(&self) -> Result<Vec<u8>, TemporalError> {
        let history = self.handle.fetch_history(Default::default()).to_json().await;
        history.map_err(|error| TemporalError::Other(error.into()))
    }

    /// The server does not find a run that ended, too.
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
