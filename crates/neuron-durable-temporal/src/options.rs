//! The options of an agent's runs on Temporal ([`TemporalOptions`]).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuron_runtime::{ChangedAgent, DEFAULT_RECORD_LIMIT, UnknownOutcome};
use neuron_types::RetryPolicy;

use crate::payload_store::PayloadStore;

/// Maximum number of bytes of a record. The server accepts 2 MiB in a payload by default, and the rest is for the
/// envelope.
const LARGEST_RECORD: usize = 3 << 19;

/// The place in which a run calls its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModelCalls {
    /// A local activity in the worker that drives the run. Only the response is in the history, so that the
    /// history grows with the new messages and the request may have any size.
    ///
    /// It costs: the call does not wait in the task queue, so no other worker takes it. While it lasts,
    /// the worker reports to the server every eight tenths of the workflow task's timeout, with three
    /// events in the history each time. When the worker is lost, or the task fails, the call that goes on
    /// is made again, and none before it: a timer separates it from an answer directly before it, and such
    /// an answer from the run's end. The server fires it within a second or so.
    #[default]
    Local,
    /// As an activity, which any worker of the queue takes. The whole request is in the history, at every
    /// turn: it must not be longer than [`TemporalOptions::record_limit`] unless there is a
    /// [`PayloadStore`], and the history grows with the square of the turns.
    Activity,
}

/// The options of an agent's runs on Temporal, which the worker, the workflow and its activities share. Clones
/// share one [`PayloadStore`].
///
/// What decides which commands a run gives ([`model_calls`](Self::model_calls),
/// [`record_limit`](Self::record_limit), [`unknown_outcome`](Self::unknown_outcome),
/// [`continue_as_new_after`](Self::continue_as_new_after)) belongs to its code: a run in flight does not
/// survive a change of it.
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
    /// Requests on their way to local activities.
    pub(crate) local_calls: crate::local_calls::LocalCalls,
}

impl TemporalOptions {
    /// Local model calls, ten attempts at each, heartbeats within ten seconds, records of at most 1 MiB,
    /// no variables of the environment, no payload store.
    pub fn new() -> Self {
        Self {
            model_calls: ModelCalls::default(),
            model_retry: RetryPolicy {
                initial_interval: Duration::from_secs(1),
                backoff_coefficient: 2.0,
                maximum_attempts: 10,
                maximum_interval: Duration::from_secs(60),
                non_retryable_errors: Vec::new(),
            },
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

    /// Sets the place of the model's calls. Default: [`ModelCalls::Local`].
    pub fn model_calls(mut self, model_calls: ModelCalls) -> Self {
        self.model_calls = model_calls;
        self
    }

    /// Sets the retries of a call of the model if the loop's options have no policy. Default: ten attempts,
    /// with waits from a second to a minute.
    pub fn model_retry(mut self, policy: RetryPolicy) -> Self {
        self.model_retry = policy;
        self
    }

    /// Sets the maximum time between two heartbeats of an activity if the loop's options have no heartbeat
    /// timeout. Default: ten seconds. After this time the worker of a tool counts as lost. The worker sends
    /// three heartbeats in this time by itself, even while a tool blocks its thread.
    pub fn heartbeat_timeout(mut self, timeout: Duration) -> Self {
        self.heartbeat_timeout = timeout;
        self
    }

    /// Sets the handling of a call whose worker was lost, of a tool that must not run twice. Default:
    /// [`UnknownOutcome::TellModel`].
    pub fn unknown_outcome(mut self, unknown_outcome: UnknownOutcome) -> Self {
        self.unknown_outcome = unknown_outcome;
        self
    }

    /// Sets the reaction to a prompt, tools or a model that changed since the history was written. By default
    /// the workflow task fails with an error that names the change, and the server retries it until a worker
    /// has the old agent. Runs that an older release of this crate started have only this default.
    pub fn changed_agent(mut self, changed_agent: ChangedAgent) -> Self {
        self.changed_agent = changed_agent;
        self
    }

    /// Sets the version of a worker's agent, and with [`AgentRuns::options`](crate::AgentRuns::options) the version to
    /// which new runs are pinned. By default there is none. A run or a worker without a version is not checked.
    ///
    /// If a worker of another version gets a pinned run, its workflow task fails with a text that names both versions. The
    /// run stands still until a worker of its version takes it. With [`ChangedAgent::GoOn`] it goes on, and is pinned to
    /// the worker's version when it continues as new. Tools run on any worker of the queue:
    /// [`AgentWorkerBuilder::deployment`](crate::AgentWorkerBuilder::deployment) routes them too.
    pub fn agent_version(mut self, version: impl Into<String>) -> Self {
        self.agent_version = Some(version.into());
        self
    }

    /// Sets the variables of [`ToolContext::environment`](neuron_types::ToolContext::environment) that tools
    /// see. Default: none, because their values are in the history.
    pub fn environment<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.environment = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the maximum number of bytes of a record. Records are the answers of the model, the arguments and
    /// results of tools, and [recorded](neuron_types::DurableContext::record) values. The default is
    /// [`DEFAULT_RECORD_LIMIT`]. More than 1.5 MiB counts as 1.5 MiB, since the server takes 2 MiB. A longer
    /// record becomes an error that names it, never an endless repetition.
    pub fn record_limit(mut self, bytes: usize) -> Self {
        self.record_limit = bytes.min(LARGEST_RECORD);
        self
    }

    /// Sets after how many steps (calls of the model, batches of tools, waits) a run continues as a new
    /// execution. It does so in any case when the server asks for it, after some thousand events.
    pub fn continue_as_new_after(mut self, steps: usize) -> Self {
        self.continue_as_new_after = Some(steps);
        self
    }

    /// Sets where payloads of more than 128 KiB are kept, instead of the history. With it a conversation
    /// longer than [`record_limit`](Self::record_limit) can continue as a new execution, and be returned.
    pub fn payload_store(mut self, store: impl PayloadStore + 'static) -> Self {
        self.payload_store = Some(Arc::new(store));
        self
    }

    /// Returns the maximum number of bytes of the state of a new execution, and of a run's result.
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
