//! Options of an agent on Restate ([`RestateOptions`]).

use std::time::Duration;

use neuron_durable::DurableOptions;

/// Maximum size of a record in bytes. It is half of Restate's limit for a message, 32 MiB. If Restate rejected a message
/// with a model response, the model call would be made and paid again.
const LARGEST_RECORD: usize = 16 << 20;

/// The options of an agent on Restate. Without options of Restate, [`AgentService::options`](crate::AgentService::options)
/// also takes [`DurableOptions`].
///
/// In contrast to other engines:
///
/// - A [record limit](DurableOptions::record_limit) above 16 MiB is treated as 16 MiB.
/// - The [lease](DurableOptions::lease) must be shorter than `worker.invoker.http2-keep-alive-timeout` in the server's
///   configuration, 20 seconds by default. After this time, Restate gives up a process that does not respond. After a
///   pause that is longer than the lease, the process drops its handlers, and Restate calls them again.
/// - Code without a [version](DurableOptions::agent_version) does not continue a run that is pinned to a version.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_durable_restate::{DurableOptions, RestateOptions};
///
/// let options = RestateOptions::new()
///     .environment(["HTTP_PROXY"])
///     .longest_step(Duration::from_secs(4 * 3600))
///     .durable(DurableOptions::new().continue_after(500));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct RestateOptions {
    pub(crate) durable: DurableOptions,
    pub(crate) environment: Vec<String>,
    pub(crate) longest_step: Duration,
    pub(crate) aside_after: Option<Duration>,
}

impl RestateOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        DurableOptions::new().into()
    }

    /// Sets the options that all durable engines have. The lease is 10 seconds by default.
    pub fn durable(mut self, options: DurableOptions) -> Self {
        self.durable = options;
        self
    }

    /// Sets the names of the environment variables that are passed to the tools. Their values are stored in Restate's
    /// journal. Default: none.
    pub fn environment(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.environment = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the maximum duration of a step, including all attempts and the pauses between them. Default: one hour.
    /// Restate interrupts a longer step and begins it again.
    pub fn longest_step(mut self, longest: Duration) -> Self {
        self.longest_step = longest;
        self
    }

    /// Sets the time that an invocation waits for a signal or a sleep before Restate suspends it. A suspended invocation
    /// is replayed when its wait ends. By default the server's setting applies, one minute if it is not configured.
    pub fn aside_after(mut self, wait: Duration) -> Self {
        self.aside_after = Some(wait);
        self
    }

    /// Returns the number of steps after which a run continues in a new invocation.
    pub(crate) fn continue_after(&self) -> usize {
        // The first entry is the opening of the journal. An invocation with no other entry would continue as new again
        // and again.
        self.durable.continue_after.unwrap_or(1000).max(2)
    }

    /// Returns the length of the lease.
    pub(crate) fn lease(&self) -> Duration {
        self.durable.lease.unwrap_or(Duration::from_secs(10))
    }

    /// Returns the maximum size of a record in bytes.
    pub(crate) fn record_limit(&self) -> usize {
        self.durable.record_limit.min(LARGEST_RECORD)
    }
}

impl Default for RestateOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl From<DurableOptions> for RestateOptions {
    fn from(durable: DurableOptions) -> Self {
        Self {
            durable,
            environment: Vec::new(),
            longest_step: Duration::from_secs(3600),
            aside_after: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use neuron_durable::DurableOptions;

    use super::RestateOptions;

    #[test]
    fn record_limit_is_capped_at_16_mib() {
        let most =
            |set| RestateOptions::from(DurableOptions::new().record_limit(set)).record_limit();
        assert_eq!((most(5), most(usize::MAX)), (5, 16 << 20));
    }
}
