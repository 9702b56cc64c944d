//! Options of an agent's runs on Temporal ([`TemporalOptions`]).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuron_durable::DurableOptions;
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
    /// [`DurableOptions::record_limit`].
    Activity,
}

/// The options of an agent's runs on Temporal. Give clones of the same value to the worker, its workflows and its
/// activities. Clones share one [`PayloadStore`]. Without options of Temporal,
/// [`AgentWorkerBuilder::options`](crate::AgentWorkerBuilder::options) also takes [`DurableOptions`].
///
/// [`model_calls`](Self::model_calls), [`record_limit`](DurableOptions::record_limit),
/// [`unknown_outcome`](DurableOptions::unknown_outcome) and [`continue_after`](DurableOptions::continue_after) determine
/// the commands that a run sends to the server. If one of them changes, a run that has already begun does not fit its
/// history any more. Treat them as part of the agent's code.
///
/// In contrast to other engines:
///
/// - The [lease](DurableOptions::lease) is the maximum time between two heartbeats of an activity. It applies if the
///   loop's options have no heartbeat timeout. After this time without a heartbeat, the server considers the worker
///   lost. The worker sends three heartbeats in this time, even while a tool blocks its thread.
/// - Steps are model calls, batches of tools, waits and recorded values. By default a run
///   [continues](DurableOptions::continue_after) as a new execution only when the server suggests it, after some
///   thousand events.
/// - A [record limit](DurableOptions::record_limit) above 1.5 MiB is reduced to 1.5 MiB, because the server accepts
///   payloads of 2 MiB including their envelope. A record that is too long is not retried.
/// - If a worker cannot drive a run because of its [version](DurableOptions::agent_version) or a
///   [changed agent](DurableOptions::changed_agent), the workflow task fails with an error that names the difference.
///   The server retries the task until a worker with the right code takes the run. With
///   [`ChangedAgent::GoOn`](neuron_durable::ChangedAgent::GoOn), a run is pinned to the worker's version when it
///   continues as new. New runs are pinned to the version of
///   [`TemporalRuns::options`](crate::TemporalRuns::options).
/// - Workers of any version may run the tools of a run. Use
///   [`AgentWorkerBuilder::deployment`](crate::AgentWorkerBuilder::deployment) to route tools by version too.
///
/// # Example
///
/// ```
/// use neuron_durable_temporal::{DurableOptions, ModelCalls, TemporalOptions};
///
/// let options = TemporalOptions::new()
///     .model_calls(ModelCalls::Activity)
///     .environment(["REGION"])
///     .durable(DurableOptions::new().continue_after(500));
/// # let _ = options;
/// ```
#[derive(Clone)]
#[must_use]
pub struct TemporalOptions {
    pub(crate) durable: DurableOptions,
    pub(crate) model_calls: ModelCalls,
    pub(crate) model_retry: RetryPolicy,
    pub(crate) environment: Arc<[String]>,
    pub(crate) payload_store: Option<Arc<dyn PayloadStore>>,
    /// Requests that wait in this process for their local activities.
    pub(crate) local_calls: crate::local_calls::LocalCalls,
}

impl TemporalOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        DurableOptions::new().into()
    }

    /// Sets the options that all durable engines have. The lease is 10 seconds by default.
    pub fn durable(mut self, options: DurableOptions) -> Self {
        self.durable = options;
        self
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

    /// Sets the names of the environment variables that tools see in
    /// [`ToolContext::environment`](neuron_types::ToolContext::environment). Default: no variables.
    ///
    /// The values of the variables are stored in the history.
    pub fn environment<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.environment = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a store for payloads of more than 128 KiB, which the history then does not contain. Default: no store.
    ///
    /// With a store, a conversation may be longer than [`record_limit`](DurableOptions::record_limit) when the run returns it or
    /// continues as a new execution.
    pub fn payload_store(mut self, store: impl PayloadStore + 'static) -> Self {
        self.payload_store = Some(Arc::new(store));
        self
    }

    /// Returns the length of the lease, which is the heartbeat timeout of activities.
    pub(crate) fn lease(&self) -> Duration {
        self.durable.lease.unwrap_or(Duration::from_secs(10))
    }

    /// Returns the maximum size of a record in bytes.
    pub(crate) fn record_limit(&self) -> usize {
        self.durable.record_limit.min(LARGEST_RECORD)
    }

    /// Returns the maximum size in bytes of a run's result and of the state of a new execution. Returns `usize::MAX` if
    /// there is a payload store, which removes the limit.
    pub(crate) fn state_limit(&self) -> usize {
        match self.payload_store {
            Some(_) => usize::MAX,
            None => self.record_limit(),
        }
    }
}

impl Default for TemporalOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl From<DurableOptions> for TemporalOptions {
    fn from(durable: DurableOptions) -> Self {
        Self {
            durable,
            model_calls: ModelCalls::default(),
            model_retry: RetryPolicy::default(),
            environment: Arc::default(),
            payload_store: None,
            local_calls: crate::local_calls::LocalCalls::default(),
        }
    }
}

impl fmt::Debug for TemporalOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemporalOptions")
            .field("durable", &self.durable)
            .field("model_calls", &self.model_calls)
            .field("model_retry", &self.model_retry)
            .field("environment", &self.environment)
            .field("payload_store", &self.payload_store.is_some())
            .finish_non_exhaustive()
    }
}
