//! Options of an agent on Restate ([`RestateOptions`]).

use std::time::Duration;

use neuron_durable::{ChangedAgent, DEFAULT_RECORD_LIMIT, UnknownOutcome};

/// Maximum value of [`RestateOptions::record_limit`] in bytes. It is half of Restate's limit for a message, 32 MiB. If
/// Restate rejected a message with a model response, the model call would be made and paid again.
const LARGEST_RECORD: usize = 16 << 20;

/// The options of an agent on Restate.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use neuron_durable_restate::RestateOptions;
///
/// let options = RestateOptions::default()
///     .with_environment(["HTTP_PROXY"])
///     .with_longest_step(Duration::from_secs(4 * 3600));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestateOptions {
    /// Maximum size of the record of one step in bytes. Default: 1 MiB. A longer model response, tool result or
    /// recorded value becomes an error that names the limit. A value above 16 MiB is treated as 16 MiB. Restate's limit
    /// for a whole message is 32 MiB.
    pub record_limit: usize,
    /// Names of the environment variables that are passed to the tools. Their values are stored in Restate's journal.
    /// Default: none.
    pub environment: Vec<String>,
    /// Number of steps after which a run continues in a new invocation. Default: 1000. If it is `None`, a run never
    /// continues in a new invocation. A replay reads all steps of one invocation, so a smaller number makes replays
    /// faster.
    pub continue_after: Option<usize>,
    /// Result of a tool call that was interrupted and must not run twice. By default the model is told that the outcome
    /// is unknown, and the run continues.
    pub unknown_outcome: UnknownOutcome,
    /// Reaction if the prompt, the tools or the model have changed since the journal was written. By default the run
    /// fails with an error that names the change. Restate shows the error with the invocation, and retries.
    pub changed_agent: ChangedAgent,
    /// Maximum duration of a step, including all attempts and the pauses between them. Default: one hour. Restate
    /// interrupts a longer step and begins it again.
    pub longest_step: Duration,
    /// Maximum pause after which this process may continue its handlers. Default: 10 seconds. The process pauses if it
    /// is stopped or hangs. After a longer pause the process drops its handlers, and Restate calls them again. A tool
    /// that blocks its thread for longer than the lease counts as such a pause.
    ///
    /// The lease must be shorter than `worker.invoker.http2-keep-alive-timeout` in the server's configuration, 20
    /// seconds by default. After this time, Restate gives up a process that does not respond.
    pub lease: Duration,
    /// Version of the agent, for example a release or a commit. A run is pinned to the version with which it began.
    /// Code of another version can continue the run only if [`changed_agent`](Self::changed_agent) allows it. Default:
    /// `None`, and runs are not pinned.
    pub agent_version: Option<String>,
    /// Time that an invocation waits for a signal or a sleep before Restate suspends it. A suspended invocation is
    /// replayed when its wait ends. Default: `None`, and the server's setting applies. The server's default is one
    /// minute.
    pub aside_after: Option<Duration>,
}

impl Default for RestateOptions {
    fn default() -> Self {
        Self {
            record_limit: DEFAULT_RECORD_LIMIT,
            environment: Vec::new(),
            continue_after: Some(1000),
            unknown_outcome: UnknownOutcome::default(),
            changed_agent: ChangedAgent::default(),
            longest_step: Duration::from_secs(3600),
            lease: Duration::from_secs(10),
            agent_version: None,
            aside_after: None,
        }
    }
}

impl RestateOptions {
    /// Returns the maximum size of a record in bytes, which is `record_limit` but at most 16 MiB.
    pub(crate) fn most_of_a_record(&self) -> usize {
        self.record_limit.min(LARGEST_RECORD)
    }

    /// Sets the maximum size of the record of one step in bytes, see [`record_limit`](Self::record_limit).
    #[must_use]
    pub fn with_record_limit(self, bytes: usize) -> Self {
        Self { record_limit: bytes, ..self }
    }

    /// Sets the names of the environment variables that are passed to the tools.
    #[must_use]
    pub fn with_environment(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { environment: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the number of steps after which a run continues as a new invocation. `None` means never.
    #[must_use]
    pub fn with_continue_after(self, steps: Option<usize>) -> Self {
        Self { continue_after: steps, ..self }
    }

    /// Sets the result of a tool call that was interrupted and must not run twice.
    #[must_use]
    pub fn with_unknown_outcome(self, outcome: UnknownOutcome) -> Self {
        Self { unknown_outcome: outcome, ..self }
    }

    /// Sets the reaction to an agent that changed since the journal was written.
    #[must_use]
    pub fn with_changed_agent(self, changed_agent: ChangedAgent) -> Self {
        Self { changed_agent, ..self }
    }

    /// Sets the maximum duration of a step, including all attempts.
    #[must_use]
    pub fn with_longest_step(self, longest: Duration) -> Self {
        Self { longest_step: longest, ..self }
    }

    /// Sets the maximum pause of this process after which its handlers may continue, see [`lease`](Self::lease).
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Sets the version of the agent to which new runs are pinned.
    #[must_use]
    pub fn with_agent_version(self, version: impl Into<String>) -> Self {
        Self { agent_version: Some(version.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::RestateOptions;

    #[test]
    fn record_limit_is_capped_at_16_mib() {
        let most = |set| RestateOptions::default().with_record_limit(set).most_of_a_record();
        assert_eq!((most(5), most(usize::MAX)), (5, 16 << 20));
    }
}
