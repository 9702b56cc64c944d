//! The options of an agent on Restate ([`RestateOptions`]).

use std::time::Duration;

use neuron_runtime::{ChangedAgent, DEFAULT_RECORD_LIMIT, UnknownOutcome};

/// Maximum number of bytes of a record for any setting. Restate rejects messages over 32 MiB, and a rejected
/// response would be paid for again.
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
    /// The most bytes that the record of one step may have. An answer of a model or a tool, or a recorded value, that is
    /// longer becomes an error that says so. By default 1 MiB; more than 16 MiB are as 16 MiB, since Restate
    /// refuses messages over 32 MiB.
    pub record_limit: usize,
    /// The variables of a call's environment that may cross to the tools, and so into Restate's journal.
    /// By default none.
    pub environment: Vec<String>,
    /// Number of steps after which a run continues as a new invocation. `None` is never. Default: 1000. Each
    /// replay reads all steps of its invocation.
    pub continue_after: Option<usize>,
    /// The handling of a call that was interrupted and must not run twice.
    pub unknown_outcome: UnknownOutcome,
    /// The reaction to a prompt, tools or a model that changed since the journal was written. By default the
    /// run fails with an error that names the change. Restate shows the error with the invocation, and retries
    /// it until the agent is as before.
    pub changed_agent: ChangedAgent,
    /// The longest time that one step takes, all attempts and the waits between them included. By
    /// default one hour. What takes longer, Restate interrupts and begins again.
    pub longest_step: Duration,
    /// Maximum pause of this process, stopped or hung, after which it goes on with its work. Default: ten seconds. After
    /// a longer pause it drops its handlers, and Restate calls them again. A tool that blocks its thread for longer counts
    /// as a pause. The lease must be shorter than the time after which Restate gives up a process that does not respond.
    /// That is `worker.invoker.http2-keep-alive-timeout` in the server's configuration, 20 seconds by default.
    pub lease: Duration,
    /// The version of the agent, for example a release or a commit. A run is pinned to the version with which it began.
    /// Code of another version does not go on with it, unless [`changed_agent`](Self::changed_agent) allows it. Default:
    /// none, and runs are not pinned.
    pub agent_version: Option<String>,
    /// Time for which an invocation waits for a signal or a sleep before Restate suspends it until there is
    /// more to do. Then it is replayed. `None`, the default, is the server's setting of one minute.
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
    /// Returns the maximum number of bytes of a record.
    pub(crate) fn most_of_a_record(&self) -> usize {
        self.record_limit.min(LARGEST_RECORD)
    }

    /// Sets the most bytes that the record of one step may have.
    #[must_use]
    pub fn with_record_limit(self, bytes: usize) -> Self {
        Self { record_limit: bytes, ..self }
    }

    /// Sets the variables that may cross to the tools.
    #[must_use]
    pub fn with_environment(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { environment: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets after how many steps a run goes on as a new invocation.
    #[must_use]
    pub fn with_continue_after(self, steps: Option<usize>) -> Self {
        Self { continue_after: steps, ..self }
    }

    /// Sets what becomes of a call of which nobody knows whether it had its effect.
    #[must_use]
    pub fn with_unknown_outcome(self, outcome: UnknownOutcome) -> Self {
        Self { unknown_outcome: outcome, ..self }
    }

    /// Sets the reaction to an agent that changed since the journal was written.
    #[must_use]
    pub fn with_changed_agent(self, changed_agent: ChangedAgent) -> Self {
        Self { changed_agent, ..self }
    }

    /// Sets the longest time that one step takes.
    #[must_use]
    pub fn with_longest_step(self, longest: Duration) -> Self {
        Self { longest_step: longest, ..self }
    }

    /// Sets the maximum pause of this process after which it goes on with its work.
    #[must_use]
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Sets the version of the agent, to which runs are pinned.
    #[must_use]
    pub fn with_agent_version(self, version: impl Into<String>) -> Self {
        Self { agent_version: Some(version.into()), ..self }
    }

    /// Sets how long an invocation waits before Restate puts it aside.
    #[must_use]
    pub fn with_aside_after(self, wait: Duration) -> Self {
        Self { aside_after: Some(wait), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::RestateOptions;

    #[test]
    fn no_setting_makes_records_that_restate_refuses() {
        let most = |set| RestateOptions::default().with_record_limit(set).most_of_a_record();
        assert_eq!((most(5), most(usize::MAX)), (5, 16 << 20));
    }
}
