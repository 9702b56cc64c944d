//! A worker that hosts an agent ([`AgentWorker`]).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{BoxedProvider, DurableAgent, Provider};
use temporalio_client::Client;
use temporalio_common::worker::{
    VersioningBehavior, WorkerDeploymentOptions, WorkerDeploymentVersion,
};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};

use crate::payload_store::{PATIENCE, with_store};
use crate::{AgentActivities, AgentWorkflow, SubAgentWorkflow, TemporalError, TemporalOptions};

/// A Temporal worker that hosts one agent on a task queue. It drives any number of the agent's runs concurrently.
///
/// Several workers of the agent may share the queue, on one or more machines. Each agent needs its own task queue.
///
/// # Example: a graceful shutdown
///
/// ```no_run
/// use neuron_durable_temporal::{AgentWorker, TemporalError};
/// use neuron_tool::ToolRegistry;
/// use neuron_types::{DurableAgent, Provider};
/// use temporalio_client::Client;
///
/// # async fn worker(
/// #     client: Client,
/// #     my_provider: impl Provider + 'static,
/// #     my_tools: ToolRegistry,
/// #     my_agent: impl DurableAgent + 'static,
/// # ) -> Result<(), TemporalError> {
/// let mut worker = AgentWorker::builder(client, "support", my_provider, my_tools, my_agent).build()?;
/// let shutdown = worker.shutdown_handle();
/// tokio::spawn(async move {
///     let _ = tokio::signal::ctrl_c().await;
///     shutdown.shutdown();
/// });
/// worker.run().await
/// # }
/// ```
pub struct AgentWorker {
    worker: Worker,
    /// The SDK's handle to the tokio runtime. It must live as long as the worker.
    _runtime: Runtime,
}

impl AgentWorker {
    /// Creates a builder for a worker that hosts `agent` on `task_queue`. The activities of the runs call `provider`
    /// and `tools`.
    ///
    /// The agent has its own tool registry, which describes the tools to the model. This registry and `tools` must
    /// contain the same tools.
    pub fn builder(
        client: Client,
        task_queue: impl Into<String>,
        provider: impl Provider + 'static,
        tools: impl Into<Arc<ToolRegistry>>,
        agent: impl DurableAgent + 'static,
    ) -> AgentWorkerBuilder {
        AgentWorkerBuilder {
            client,
            task_queue: task_queue.into(),
            provider: BoxedProvider::new(provider),
            tools: tools.into(),
            agent: Arc::new(agent),
            options: TemporalOptions::new(),
            identity: None,
            sticky_timeout: Duration::from_secs(5),
            shutdown_timeout: Duration::from_secs(30),
            max_cached_runs: 1000,
            deployment: None,
        }
    }

    /// Returns a handle that shuts down the worker gracefully.
    #[must_use]
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        ShutdownHandle(Arc::new(self.worker.shutdown_handle()))
    }

    /// Runs the worker until [`ShutdownHandle::shutdown`] is called and the running activities have ended.
    ///
    /// The future is not `Send`. Await it in the program's main function or on a thread of its own.
    ///
    /// # Errors
    ///
    /// [`TemporalError::Worker`] if the server rejects the worker or cannot be reached any more.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the worker stops as if its process had been killed. Other workers continue its runs.
    pub async fn run(&mut self) -> Result<(), TemporalError> {
        self.worker.run().await.map_err(|error| TemporalError::Worker(error.into()))
    }
}

impl fmt::Debug for AgentWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentWorker")
            .field("task_queue", &self.worker.task_queue())
            .finish_non_exhaustive()
    }
}

/// Shuts down an [`AgentWorker`] gracefully. Clones shut down the same worker.
#[derive(Clone)]
pub struct ShutdownHandle(Arc<dyn Fn() + Send + Sync>);

impl ShutdownHandle {
    /// Begins the shutdown. The worker accepts no new work, and waits up to
    /// [`shutdown_timeout`](AgentWorkerBuilder::shutdown_timeout) for its running activities. It then cancels the
    /// activities that are still running.
    ///
    /// Its runs continue on another worker, or when this worker is started again.
    pub fn shutdown(&self) {
        (self.0)();
    }
}

impl fmt::Debug for ShutdownHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShutdownHandle").finish_non_exhaustive()
    }
}

/// The settings of an [`AgentWorker`]. [`build`](Self::build) creates the worker.
#[must_use]
pub struct AgentWorkerBuilder {
    client: Client,
    task_queue: String,
    provider: BoxedProvider,
    tools: Arc<ToolRegistry>,
    agent: Arc<dyn DurableAgent>,
    options: TemporalOptions,
    identity: Option<String>,
    sticky_timeout: Duration,
    shutdown_timeout: Duration,
    max_cached_runs: usize,
    deployment: Option<WorkerDeploymentOptions>,
}

impl AgentWorkerBuilder {
    /// Sets the options of the runs. Replaces all options, also those that only Temporal has. Default:
    /// [`TemporalOptions::new`].
    pub fn options(mut self, options: impl Into<TemporalOptions>) -> Self {
        self.options = options.into();
        self
    }

    /// Sets the name by which the worker appears in histories. Default: the process id and the host name.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets the maximum time that the server waits for the worker that has a run in its memory. After this time the
    /// server gives the run to another worker. Default: 5 seconds. With a shorter time, a run recovers faster.
    pub fn sticky_timeout(mut self, timeout: Duration) -> Self {
        self.sticky_timeout = timeout;
        self
    }

    /// Sets the maximum time that a shutdown waits for running activities. After this time they are cancelled. Default:
    /// 30 seconds.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// Sets the maximum number of runs that the worker keeps in memory. Default: 1000. Every other run is replayed from
    /// its history at each event. With 0, the worker keeps no run in memory.
    pub fn max_cached_runs(mut self, runs: usize) -> Self {
        self.max_cached_runs = runs;
        self
    }

    /// Makes the worker a version of a Worker Deployment. The server then routes a run and its tools only to workers of
    /// the version with which the run began. By default every worker of the queue accepts every run.
    ///
    /// New runs begin with the deployment's current version. Without a current version, new runs wait until an operator
    /// sets one (`temporal worker deployment set-current-version`). Keep the workers of an old version until the server
    /// shows the version as drained.
    pub fn deployment(mut self, name: impl Into<String>, build_id: impl Into<String>) -> Self {
        let version =
            WorkerDeploymentVersion::builder().deployment_name(name).build_id(build_id).build();
        let options = WorkerDeploymentOptions::new(version)
            .use_worker_versioning(true)
            .default_versioning_behavior(VersioningBehavior::Pinned)
            .build();
        self.deployment = Some(options);
        self
    }

    /// Creates the worker. Must be called in a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`TemporalError::Worker`] if the settings contradict each other, or there is no tokio runtime.
    pub fn build(self) -> Result<AgentWorker, TemporalError> {
        fn failed(error: impl Into<neuron_types::BoxError>) -> TemporalError {
            TemporalError::Worker(error.into())
        }
        let Self { agent, options, .. } = self;
        let client = match &options.payload_store {
            Some(store) => with_store(self.client, store.clone(), PATIENCE),
            None => self.client,
        };
        let activities = AgentActivities::new(self.provider, self.tools.clone(), options.clone())
            .with_agent(agent.clone());
        let nested = SubAgentWorkflow::new(agent.clone(), self.tools, options.clone());
        let worker = WorkerOptions::new(self.task_queue)
            .maybe_client_identity_override(self.identity)
            .sticky_queue_schedule_to_start_timeout(self.sticky_timeout)
            .graceful_shutdown_period(self.shutdown_timeout)
            .max_cached_workflows(self.max_cached_runs)
            .maybe_deployment_options(self.deployment)
            .register_activities(activities)
            .register_workflow_with_factory(move || {
                AgentWorkflow::new(agent.clone(), options.clone())
            })
            .and_then(|worker| worker.register_workflow_with_factory(move || nested.clone()))
            .map_err(failed)?
            .build();
        let runtime = Runtime::from_current_tokio(Default::default()).map_err(failed)?;
        let worker = Worker::new(&runtime, client, worker).map_err(failed)?;
        Ok(AgentWorker { worker, _runtime: runtime })
    }
}

impl fmt::Debug for AgentWorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentWorkerBuilder")
            .field("task_queue", &self.task_queue)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
