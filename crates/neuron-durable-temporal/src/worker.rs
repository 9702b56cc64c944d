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

/// A worker of Temporal that hosts one agent on a task queue. It owns the provider and the tools, and runs any
/// number of the agent's runs at the same time.
///
/// Start as many as you like, on as many machines: they share the queue. Another agent gets another queue.
///
/// # Example: a worker that ends in good order
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
    /// The SDK's handle on this runtime, which the worker needs as long as it is.
    _runtime: Runtime,
}

impl AgentWorker {
    /// Starts building a worker that hosts `agent`. The activities of the runs call `provider` and `tools`. The
    /// agent's own registry describes the tools to the model, so give it the same ones.
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

    /// Works until [`ShutdownHandle::shutdown`] is called and the running activities have ended.
    ///
    /// The future stays on one thread: await it in the program's main function, or on a thread of its own.
    ///
    /// # Errors
    ///
    /// [`TemporalError::Worker`] when the server refuses the worker or is gone for good.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves what was running to other workers, as if the process had been killed.
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

/// Ends an [`AgentWorker`] in good order. Clones end the same one.
#[derive(Clone)]
pub struct ShutdownHandle(Arc<dyn Fn() + Send + Sync>);

impl ShutdownHandle {
    /// Takes no new work, lets activities end for
    /// [`shutdown_timeout`](AgentWorkerBuilder::shutdown_timeout), and then cancels them. Runs go on with
    /// another worker, or when this one is started again.
    pub fn shutdown(&self) {
        (self.0)();
    }
}

impl fmt::Debug for ShutdownHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShutdownHandle").finish_non_exhaustive()
    }
}

/// Settings of an [`AgentWorker`], which [`build`](Self::build) makes.
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
    /// Sets the options of the runs. Default: [`TemporalOptions::new`].
    pub fn options(mut self, options: TemporalOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the name of the worker in histories. Default: the process id and the name of the host.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets the time for which the server waits for the worker that has a run in its memory before it asks
    /// another worker. Default: five seconds. It is a part of the time in which a run recovers.
    pub fn sticky_timeout(mut self, timeout: Duration) -> Self {
        self.sticky_timeout = timeout;
        self
    }

    /// Sets the maximum time for running activities after a shutdown began. Default: 30 seconds.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// Sets the maximum number of runs in the worker's memory. Default: 1000. Other runs are replayed from
    /// their histories at each event. With zero all runs are.
    pub fn max_cached_runs(mut self, runs: usize) -> Self {
        self.max_cached_runs = runs;
        self
    }

    /// Makes the worker a version of a Worker Deployment. The server routes each run, with its tools, to workers of the
    /// version with which it began. By default each worker of the queue takes every run.
    ///
    /// New runs begin with the deployment's current version. Until an operator has set one
    /// (`temporal worker deployment set-current-version`), they wait. A worker whose version is not needed any more is shut
    /// down when the server shows the version as drained.
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

    /// Makes the worker, in a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`TemporalError::Worker`] when the settings do not fit, or outside of a runtime.
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
