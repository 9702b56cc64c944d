//! Options of an agent's runs on Temporal ([`TemporalOptions`]).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuron_durable::{ChangedAgent, DEFAULT_RECORD_LIMIT, UnknownOutcome};
use neuron_types::RetryPolicy;

use crate::payload_store::PayloadStore;

/// Maximum size of a record in bytes (1.5 MiB). By default the server accepts payloads of 2 MiB, and the envelope needs
/// the rest.
const LARGEST_RECORD: usize = 3 << 19;

/// The kind of activity that calls the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ModelCalls {
    /// A local activity in the worker that drives the run. The history contains only the response, so it grows only by
    /// the new messages. The request may have any size.
    ///
    /// Local calls have these costs:
    ///
    /// - Only the worker that drives the run can make the call, because the call is not in the task queue.
    /// - During the call, the worker reports to the server after each 80 % of the workflow task's timeout. Each report
    ///   adds three events to the history.
    /// - If the worker is lost or the workflow task fails, the current call is made again.
    /// - Between two consecutive calls, and between the last call and the end of the run, the run waits for a timer of
    ///   about a second. The timer makes the worker send the response to the server, so that a crash does not repeat
    ///   the call.
    #[default]
    Local,
    /// An activity that any worker of the queue can run. The history contains the whole request of every turn, so it
    /// grows with the square of the number of turns. Without a [`PayloadStore`], a request must not be longer than
    /// [`TemporalOptions::record_limit`].
    Activity,
}

/// The options of an agent's runs on Temporal. Give clones of the same value to the worker, its workflows and its
/// activities. Clones share one [`PayloadStore`].
///
/// [`model_calls`](Self::model_calls), [`record_limit`](Self::record_limit), [`unknown_outcome`](Self::unknown_outcome)
/// and [`continue_as_new_after`](Self::continue_as_new_after) determine the commands that a run sends to the server. If
/// one of them changes, a run that has already begun does not fit its history any more. Treat them as part of the
/// agent's code.
///
/// # Example
///
/// ```
/// use neuron_durable_temporal::{ModelCalls, TemporalOptions};
///
/// let options = TemporalOptions::new()
///     .model_calls(ModelCalls::Activity)
///     .environment(["REGION"])
///     .continue_as_new_after(500);
/// # let _ = options;
/// ```
#[derive(Clone)]
#[must_use]
pub struct TemporalOptions {
    pub(crate) model_calls: ModelCalls,
    pub(crate) model_retry: RetryPolicy,
    pub(crate) heartbeat_timeout: Duration,
    pub(crate) unknown_outcome: UnknownOutcome,
    pub(crate) changed_agent: ChangedAgent,
    pub(crate) agent_version: Option<String>,
    pub(crate) environment: Arc<[String]>,
    pub(crate) record_limit: usize,
    pub(crate) continue_as_new_after: Option<usize>,
    pub(crate) payload_store: Option<Arc<dyn PayloadStore>>,
    /// Requests that wait in this process for their local activities.
    pub(crate) local_calls: crate::local_calls::LocalCalls,
}

impl TemporalOptions {
    /// Creates the default options:
    ///
    /// - Model calls are local, with up to ten attempts.
    /// - The heartbeat timeout is 10 seconds.
    /// - A record has up to 1 MiB.
    /// - Tools see no environment variables.
    /// - There is no payload store.
    pub fn new() -> Self {
        Self {
            model_calls: ModelCalls::default(),
            model_retry: RetryPolicy::default(),
            heartbeat_timeout: Duration::from_secs(10),
            unknown_outcome: UnknownOutcome::default(),
            changed_agent: ChangedAgent::default(),
            agent_version: None,
            environment: Arc::default(),
            record_limit: DEFAULT_RECORD_LIMIT,
            continue_as_new_after: None,
            payload_store: None,
            local_calls: crate::local_calls::LocalCalls::default(),
        }
    }

    /// Sets the kind of activity that calls the model. Default: [`ModelCalls::Local`].
    pub fn model_calls(mut self, model_calls: ModelCalls) -> Self {
        self.model_calls = model_calls;
        self
    }

    /// Sets the retry policy of model calls. It applies if the loop's options have no retry policy. Default:
    /// [`RetryPolicy::default`].
    pub fn model_retry(mut self, policy: RetryPolicy) -> Self {
        self.model_retry = policy;
        self
    }

    /// Sets the maximum time between two heartbeats of an activity. It applies if the loop's options have no heartbeat
    /// timeout. Default: 10 seconds.
    ///
    /// After this time without a heartbeat, the server considers the worker lost. The worker sends three heartbeats in
    /// this time, even while a tool blocks its thread.
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> Self {
        self.heartbeat_timeout = timeout;
        self
    }

    /// Sets the result of a tool call whose worker was lost, if the tool must not run twice. Default:
    /// [`UnknownOutcome::TellModel`].
    pub fn unknown_outcome(mut self, unknown_outcome: UnknownOutcome) -> Self {
        self.unknown_outcome = unknown_outcome;
        self
    }

    /// Sets the reaction of a run if the prompt, the tools or the model changed since its history was written.
    ///
    /// By default the workflow task fails with an error that names the change. The server retries the task until a
    /// worker with the old agent takes the run.
    pub fn changed_agent(mut self, changed_agent: ChangedAgent) -> Self {
        self.changed_agent = changed_agent;
        self
    }

    /// Sets the version of the agent. Default: no version. A worker with a version drives only runs of this version.
    /// With [`AgentRuns::options`](crate::AgentRuns::options), new runs are pinned to this version.
    ///
    /// If a worker of another version receives a pinned run, the workflow task fails with an error that names both
    /// versions. The run stalls until a worker of the pinned version takes it. With [`ChangedAgent::GoOn`] the run
    /// continues instead, and is pinned to the worker's version when it continues as new. A run or a worker without a
    /// version is not checked.
    ///
    /// Workers of any version may run the tools of a run. Use
    /// [`AgentWorkerBuilder::deployment`](crate::AgentWorkerBuilder::deployment) to route tools by version too.
    pub fn agent_version(mut self, version: impl Into<String>) -> Self {
        self.agent_version = Some(version.into());
        self
    }

    /// Sets the names of the environment variables that tools see in
    /// [`ToolContext::environment`](neuron_types::ToolContext::environment). Default: no variables.
    ///
    /// The values of the variables are stored in the history.
    pub fn environment<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.environment = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the maximum size of a record in bytes. Records are the responses of the model, the arguments and results of
    /// tools, and [recorded](neuron_types::DurableContext::record) values. Default: [`DEFAULT_RECORD_LIMIT`].
    ///
    /// A longer record becomes an error that names the record. This error is not retried. A limit above 1.5 MiB is
    /// reduced to 1.5 MiB, because the server accepts payloads of 2 MiB including their envelope.
    pub fn record_limit(mut self, bytes: usize) -> Self {
        self.record_limit = bytes.min(LARGEST_RECORD);
        self
    }

    /// Sets the number of steps after which a run continues as a new execution. Steps are model calls, batches of
    /// tools, waits and recorded values.
    ///
    /// By default a run continues as new only when the server suggests it, after some thousand events.
    pub fn continue_as_new_after(mut self, steps: usize) -> Self {
        self.continue_as_new_after = Some(steps);
        self
    }

    /// Sets a store for payloads of more than 128 KiB, which the history then does not contain. Default: no store.
    ///
    /// With a store, a conversation may be longer than [`record_limit`](Self::record_limit) when the run returns it or
    /// continues as a new execution.
    pub fn payload_store(mut self, store: impl PayloadStore + 'static) -> Self {
        self.payload_store = Some(Arc::new(store));
        self
    }

    /// Returns the maximum size in bytes of a run's result and of the state of a new execution. Returns `usize::MAX` if
    /// there is a payload store, which removes the limit.
    pub(crate) fn state_limit(&self) -> usize {
        match self.payload_store {
            Some(_) => usize::MAX,
            None => self.record_limit,
        }
    }
}

impl Default for TemporalOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TemporalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemporalOptions")
            .field("model_calls", &self.model_calls)
            .field("model_retry", &self.model_retry)
            .field("heartbeat_timeout", &self.heartbeat_timeout)
            .field("unknown_outcome", &self.unknown_outcome)
            .field("changed_agent", &self.changed_agent)
            .field("agent_version", &self.agent_version)
            .field("environment", &self.environment)
            .field("record_limit", &self.record_limit)
            .field("continue_as_new_after", &self.continue_as_new_after)
            .field("payload_store", &self.payload_store.is_some())
            .finish_non_exhaustive()
    }
}
