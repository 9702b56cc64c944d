//! The options that all durable engines have ([`DurableOptions`]).

use std::time::Duration;

use crate::{ChangedAgent, DEFAULT_RECORD_LIMIT, UnknownOutcome};

/// The options of the runs of a durable engine. Every engine has them. The options of an engine
/// say where it differs.
///
/// Each engine has a method `options` that takes this type. An engine with options of its own also takes a type that
/// contains this one, such as `RestateOptions`.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// use neuron_durable::{ChangedAgent, DurableOptions};
///
/// let options = DurableOptions::new()
///     .agent_version("2026-11")
///     .changed_agent(ChangedAgent::GoOn)
///     .lease(Duration::from_secs(5));
/// assert_eq!(options.record_limit, 1 << 20);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct DurableOptions {
    /// Version of the agent, for example a release or a commit. Default: `None`.
    pub agent_version: Option<String>,
    /// Reaction to a changed prompt, tool or model. Default: [`ChangedAgent::Refuse`].
    pub changed_agent: ChangedAgent,
    /// Number of steps after which a run continues as a new execution. Default: `None`, and the engine decides.
    pub continue_after: Option<usize>,
    /// Length of the lease. Default: `None`, which means the engine's default.
    pub lease: Option<Duration>,
    /// Maximum size of a record in bytes. Default: [`DEFAULT_RECORD_LIMIT`].
    pub record_limit: usize,
    /// Result of an interrupted tool call that must not run twice. Default: [`UnknownOutcome::TellModel`].
    pub unknown_outcome: UnknownOutcome,
}

impl DurableOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self {
            agent_version: None,
            changed_agent: ChangedAgent::default(),
            continue_after: None,
            lease: None,
            record_limit: DEFAULT_RECORD_LIMIT,
            unknown_outcome: UnknownOutcome::default(),
        }
    }

    /// Sets the version of the agent. A new run stores the version and is pinned to it.
    ///
    /// Code of another version does not continue the run, which is listed as [stalled](crate::RunStatus::Stalled) until
    /// code of the pinned version takes it. With [`ChangedAgent::GoOn`] the run continues instead, and is pinned to the
    /// new version. The documentation of an engine says when a run is pinned, and how code treats a run without a version.
    pub fn agent_version(mut self, version: impl Into<String>) -> Self {
        self.agent_version = Some(version.into());
        self
    }

    /// Sets the reaction if the prompt, the tools or the model have changed since the journal was written.
    ///
    /// By default the run stops with an error that names the change, and is listed as
    /// [stalled](crate::RunStatus::Stalled).
    pub fn changed_agent(mut self, changed_agent: ChangedAgent) -> Self {
        self.changed_agent = changed_agent;
        self
    }

    /// Sets the number of steps after which a run continues as a new execution with an empty journal. With
    /// `usize::MAX` a run never continues because of its steps. A replay reads all steps of one execution, so a smaller
    /// number makes replays faster.
    ///
    /// Default: 1,000 steps, if the engine starts the new execution itself. On Temporal, the server's suggestion.
    ///
    /// The new execution calls the agent with [`Start::Snapshot`](neuron_types::Start::Snapshot). The snapshot contains
    /// only the state of the agent loop that was in progress. An agent may have executed other steps before this loop,
    /// such as a wait or an earlier loop. It must skip these steps when it is started with a snapshot. Otherwise they
    /// are executed again.
    pub fn continue_after(mut self, steps: usize) -> Self {
        self.continue_after = Some(steps);
        self
    }

    /// Sets the length of the lease. If a process is stopped or hangs for longer than the lease, another process may
    /// take over its runs. The process then starts no further step. A tool that blocks its thread for longer than the
    /// lease loses the run.
    ///
    /// On Restate the lease must be shorter than the server's `http2-keep-alive-timeout` (20 seconds by default).
    /// Otherwise two processes may work on one run. On Temporal it is the heartbeat timeout of activities, and the
    /// server decides when another worker takes a run.
    ///
    /// Default: 30 seconds on SQLite, 10 seconds on Restate and Temporal.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets the maximum size in bytes of the record of a step. An engine may have a lower maximum.
    ///
    /// A longer model response, tool result or recorded value becomes an error that names the limit. On SQLite and
    /// Temporal, a tool call with longer arguments does not run.
    pub fn record_limit(mut self, bytes: usize) -> Self {
        self.record_limit = bytes;
        self
    }

    /// Sets the result of an interrupted tool call that must not run twice. By default the model is told that the
    /// outcome is unknown, and the run continues.
    pub fn unknown_outcome(mut self, unknown_outcome: UnknownOutcome) -> Self {
        self.unknown_outcome = unknown_outcome;
        self
    }
}

impl Default for DurableOptions {
    fn default() -> Self {
        Self::new()
    }
}
