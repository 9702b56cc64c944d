//! [`DurableEngine`]: what a test of an adapter says about its engine.

use std::fmt;
use std::future::Future;
use std::pin::pin;

use futures_util::future::{Either, select};
use neuron_types::{AgentResult, LoopError};
use serde_json::Value;

use crate::effects::{EffectKind, EffectLog};
use crate::scenario::Scenario;

/// An engine under test. A value of it is a client of the engine: dropping it, and opening another one,
/// must lose no run.
pub trait DurableEngine: Sync {
    /// Starts the run with this id, or goes on with it, and waits for its end. An ended run gives again
    /// what it gave.
    ///
    /// The model, the tools and the agent are those of the scenario, with this log; a run that continues
    /// as new ends with its last execution.
    ///
    /// The future may be dropped at any await, as a crash would end it, and the run be resumed by another
    /// call.
    fn run(
        &self,
        run_id: &str,
        scenario: &Scenario,
        log: &EffectLog,
    ) -> impl Future<Output = Result<AgentResult, RunFailure>> + Send;

    /// Sends a signal to a run that was started.
    fn signal(
        &self,
        run_id: &str,
        name: &str,
        value: Value,
    ) -> impl Future<Output = Result<(), RunFailure>> + Send;

    /// Whether a run that ended is there, and gives what it gave. Provided: yes.
    fn keeps_runs(&self) -> bool {
        true
    }

    /// Runs the agent's code of a run that ended against its whole journal, as an engine does that knows
    /// nothing of it any more; `None` if an ended run has no journal to be replayed. What comes of it is
    /// taken from the log. Provided: [`run`](Self::run) does so.
    fn replay(
        &self,
        run_id: &str,
        scenario: &Scenario,
        log: &EffectLog,
    ) -> impl Future<Output = Option<Result<(), RunFailure>>> + Send
    where
        Self: Sized,
    {
        async move {
            match self.keeps_runs() {
                true => Some(self.run(run_id, scenario, log).await.map(drop)),
                false => None,
            }
        }
    }

    /// Starts a run with the code of `first`, and lets the code of `then` go on with it once `log` says
    /// that it waits for a signal; returns how that failed, and `None` where runs do not outlive what hosts
    /// them. Provided: drops the future of [`run`](Self::run), and calls it again with `then`.
    fn change_code(
        &self,
        run_id: &str,
        first: &Scenario,
        then: &Scenario,
        log: &EffectLog,
    ) -> impl Future<Output = Option<Result<AgentResult, RunFailure>>> + Send
    where
        Self: Sized,
    {
        async move {
            if !self.keeps_runs() {
                return None;
            }
            {
                let waits = pin!(log.reached(|kind| matches!(kind, EffectKind::Waits { .. })));
                let run = pin!(self.run(run_id, first, log));
                if let Either::Left((result, _)) = select(run, waits).await {
                    return Some(result);
                }
            }
            Some(self.run(run_id, then, log).await)
        }
    }

    /// Whether this failure says that the code of a run was changed. Provided: whether it is
    /// [`DurableError::NonDeterminism`](neuron_types::DurableError::NonDeterminism), by its text.
    fn says_that_code_changed(&self, failure: &RunFailure) -> bool {
        failure.text.contains("replay differs from the journal")
    }

    /// Whether a run goes on when the code that began it is back. Provided: yes.
    fn goes_on_with_the_right_code(&self) -> bool {
        true
    }

    /// Cancels a run; `None` if the engine cannot. Provided: `None`.
    fn cancel(&self, run_id: &str) -> impl Future<Output = Option<Result<(), RunFailure>>> + Send {
        let _ = run_id;
        async { None }
    }

    /// How many bytes the journal of a run takes, as exactly as the engine says; `None` if it does not.
    /// Provided: `None`.
    fn journal_bytes(&self, run_id: &str) -> impl Future<Output = Option<u64>> + Send {
        let _ = run_id;
        async { None }
    }

    /// The most bytes that a record may have; `None` if there is no limit below three megabytes. Provided:
    /// [`DEFAULT_RECORD_LIMIT`](neuron_runtime::DEFAULT_RECORD_LIMIT).
    fn record_limit(&self) -> Option<usize> {
        Some(neuron_runtime::DEFAULT_RECORD_LIMIT)
    }

    /// Whether a run can continue as a new execution. Provided: yes.
    fn continues_as_new(&self) -> bool {
        true
    }

    /// Whether its context polls each tool inside its [scope](neuron_types::ToolInvocation::scope), as one does
    /// that runs the tools in the agent's process. Provided: yes.
    fn runs_tools_in_scopes(&self) -> bool {
        true
    }

    /// Whether the deltas of a stream reach the agent's code while the model answers for the first time.
    /// Provided: yes.
    fn streams_deltas(&self) -> bool {
        true
    }
}

/// How a run failed, as far as its engine knows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFailure {
    /// The [kind](LoopError::kind) of the error; `None` where the engine does not hand it on. The suite
    /// then takes it from the agent's log.
    pub kind: Option<String>,
    /// The error's text.
    pub text: String,
}

impl RunFailure {
    /// A failure of which the engine knows a text.
    pub fn new(text: impl fmt::Display) -> Self {
        Self { kind: None, text: text.to_string() }
    }
}

impl From<LoopError> for RunFailure {
    fn from(error: LoopError) -> Self {
        Self { kind: Some(error.kind().to_owned()), text: error.to_string() }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.as_deref().unwrap_or("unknown"), self.text)
    }
}

impl std::error::Error for RunFailure {}

/// Runs a scenario to its end, and sends its signals, each once the run waits for it.
///
/// A signal may be sent again when the process dies at the moment.
///
/// # Errors
///
/// How the run failed.
pub async fn run_with_signals(
    engine: &impl DurableEngine,
    run_id: &str,
    scenario: &Scenario,
    log: &EffectLog,
) -> Result<AgentResult, RunFailure> {
    let run = pin!(engine.run(run_id, scenario, log));
    let send = pin!(async {
        send_signals(engine, run_id, scenario, log).await?;
        std::future::pending().await
    });
    select(run, send).await.factor_first().0
}

/// Sends the signals of a scenario that were not sent.
pub(crate) async fn send_signals(
    engine: &impl DurableEngine,
    run_id: &str,
    scenario: &Scenario,
    log: &EffectLog,
) -> Result<(), RunFailure> {
    let signals = scenario.signals();
    for (index, signal) in signals.iter().enumerate() {
        let name = &signal.name;
        let number = signals.iter().take(index).filter(|other| other.name == *name).count();
        let sent = EffectKind::SignalSent { signal: name.clone(), number };
        if log.count(|kind| *kind == sent) > 0 {
            continue;
        }
        if !log.has(&signal.after).await {
            let after = &signal.after;
            return Err(RunFailure::new(format!(
                "`{name}` is sent after {after:?}, which was not"
            )));
        }
        engine.signal(run_id, name, signal.value.clone()).await?;
        log.append(sent);
    }
    Ok(())
}
