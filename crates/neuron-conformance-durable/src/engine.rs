//! The interface of an engine under test ([`DurableEngine`]), and an engine without a journal ([`LocalEngine`]).

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, select};
use neuron_durable::{LocalDurableContext, LocalSignals};
use neuron_types::{AgentResult, Durability, DurableAgent, LoopError};
use serde_json::Value;

use crate::effects::{EffectKind, EffectLog};
use crate::scenario::{Scenario, ScenarioSignal};

/// An engine under test.
///
/// Each implementation is a client of a durable engine. The runs must survive if the client is dropped and another
/// client is opened.
pub trait DurableEngine: Sync {
    /// Starts or resumes the run with this id, and waits for its end. If the run has already ended, returns its result
    /// again.
    ///
    /// Use the provider, the tools and the agent of `scenario`, and pass `log` to each. If the run continues as new,
    /// wait for the end of its last execution.
    ///
    /// The suite may drop the future at any await point to simulate a crash, and resumes the run with another call.
    fn run(
        &self,
        run_id: &str,
        scenario: &Scenario,
        log: &EffectLog,
    ) -> impl Future<Output = Result<AgentResult, RunFailure>> + Send;

    /// Sends a signal to a run that has been started.
    fn signal(
        &self,
        run_id: &str,
        name: &str,
        value: Value,
    ) -> impl Future<Output = Result<(), RunFailure>> + Send;

    /// Returns `true` if a call of [`run`](Self::run) for an ended run returns the same result again. Default: `true`.
    fn keeps_runs(&self) -> bool {
        true
    }

    /// Replays an ended run from the beginning, with its whole journal. Returns `None` if there is no journal.
    ///
    /// The suite reads the result of the replay from the log. By default this method calls [`run`](Self::run).
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

    /// Starts a run with the code of the scenario `first`. As soon as the run waits for a signal, resumes it with the
    /// code of the scenario `then`.
    ///
    /// Returns the result of the run with `then`, which should be a failure. Returns `None` if runs end with their
    /// host. By default this method drops the future of [`run`](Self::run), and calls `run` again with `then`.
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

    /// Returns `true` if a failure reports changed code. By default this method compares the text with that of
    /// [`DurableError::NonDeterminism`](neuron_types::DurableError::NonDeterminism).
    fn is_code_change(&self, failure: &RunFailure) -> bool {
        failure.text.contains("replay differs from the journal")
    }

    /// Returns `true` if the original code can resume a run after changed code has failed. Default: `true`.
    fn resumes_original_code(&self) -> bool {
        true
    }

    /// Cancels a run. Returns `None`, the default, if the engine cannot cancel runs.
    fn cancel(&self, run_id: &str) -> impl Future<Output = Option<Result<(), RunFailure>>> + Send {
        let _ = run_id;
        async { None }
    }

    /// Returns the size of a run's journal in bytes. Returns `None`, the default, if the size is unknown.
    fn journal_bytes(&self, run_id: &str) -> impl Future<Output = Option<u64>> + Send {
        let _ = run_id;
        async { None }
    }

    /// Returns the maximum size of a journal record in bytes. Returns `None` if there is no limit, or if the limit is
    /// three megabytes or more. Default: [`DEFAULT_RECORD_LIMIT`](neuron_durable::DEFAULT_RECORD_LIMIT).
    fn record_limit(&self) -> Option<usize> {
        Some(neuron_durable::DEFAULT_RECORD_LIMIT)
    }

    /// Returns `true` if a run can continue as a new execution. Default: `true`.
    fn continues_as_new(&self) -> bool {
        true
    }

    /// Returns `true` if tools run in the agent's process, each polled inside its
    /// [scope](neuron_types::ToolInvocation::scope). Default: `true`.
    fn runs_tools_in_scopes(&self) -> bool {
        true
    }

    /// Returns `true` if agents inside tool calls share the [effect keys](neuron_types::Tool::effect_key) of the
    /// outermost run. Default: `true`.
    fn shares_effect_keys(&self) -> bool {
        true
    }

    /// Returns `true` if the agent receives the deltas of a stream while the model responds. Default: `true`.
    fn streams_deltas(&self) -> bool {
        true
    }
}

/// The failure of a run, as the engine reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFailure {
    /// The [kind](LoopError::kind) of the error. If it is `None`, the suite reads the kind from the log.
    pub kind: Option<String>,
    /// Text of the error.
    pub text: String,
}

impl RunFailure {
    /// Creates a failure without a kind.
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

/// Runs a scenario to its end, and sends each of its signals as soon as the run waits for the signal.
///
/// If the process is killed while it sends a signal, the signal may be sent twice.
///
/// # Errors
///
/// Fails if the run fails or a signal cannot be sent.
pub async fn run_with_signals(
    engine: &impl DurableEngine,
    run_id: &str,
    scenario: &Scenario,
    log: &EffectLog,
) -> Result<AgentResult, RunFailure> {
    let run = pin!(engine.run(run_id, scenario, log));
    let send = pin!(async {
        let mut numbers = HashMap::new();
        for ScenarioSignal { name, value, after } in scenario.signals() {
            let next: &mut usize = numbers.entry(name.clone()).or_default();
            let sent = EffectKind::SignalSent { signal: name.clone(), number: *next };
            *next += 1;
            if log.count(|kind| *kind == sent) > 0 {
                continue;
            }
            if !log.reached(|kind| *kind == after).await {
                return Err(RunFailure::new(format!("`{name}` waits for {after:?}")));
            }
            engine.signal(run_id, &name, value).await?;
            log.append(sent);
        }
        std::future::pending().await
    });
    select(run, send).await.factor_first().0
}

/// Runs scenarios with a [`LocalDurableContext`], without a journal.
///
/// Every engine must have the same results as this engine.
#[derive(Debug, Default)]
pub struct LocalEngine {
    /// The signals of each run, by run id.
    signals: Mutex<HashMap<String, LocalSignals>>,
}

impl LocalEngine {
    fn signals(&self) -> MutexGuard<'_, HashMap<String, LocalSignals>> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DurableEngine for LocalEngine {
    async fn run(
        &self,
        run_id: &str,
        scenario: &Scenario,
        log: &EffectLog,
    ) -> Result<AgentResult, RunFailure> {
        let provider = Arc::new(scenario.provider(log));
        let context = LocalDurableContext::new(provider, scenario.tools(log));
        self.signals().insert(run_id.to_owned(), context.signals());
        let agent = scenario.agent(log);
        let result = agent.run(scenario.start(), Durability::new(context)).await;
        result.map_err(RunFailure::from)
    }

    async fn signal(&self, run_id: &str, name: &str, value: Value) -> Result<(), RunFailure> {
        let signals = self.signals();
        let signals = signals.get(run_id).ok_or_else(|| RunFailure::new("there is no such run"))?;
        signals.send(name, value).map_err(RunFailure::new)
    }

    fn keeps_runs(&self) -> bool {
        false
    }

    fn record_limit(&self) -> Option<usize> {
        None
    }

    fn continues_as_new(&self) -> bool {
        false
    }
}
