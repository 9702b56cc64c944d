//! Runs scenarios on the engine under test, and compares them with a run without an engine ([`Trial`]).

use neuron_conformance::case::Case;
use neuron_conformance::random::unique;
use neuron_types::{AgentResult, Message};
use tempfile::TempDir;

use crate::effects::{self, EffectKind, EffectLog};
use crate::engine::{DurableEngine, LocalEngine, RunFailure, run_with_signals};
use crate::scenario::{Kind, Scenario};

/// A run of a scenario on the engine under test.
pub(crate) struct Trial<'e, E> {
    pub(crate) engine: &'e E,
    pub(crate) scenario: Scenario,
    pub(crate) run_id: String,
    /// Log of the run on the engine under test.
    pub(crate) log: EffectLog,
    pub(crate) case: Case,
    /// Temporary directory of the effect logs.
    directory: TempDir,
}

/// The result of a run. An error always has its kind.
pub(crate) type Outcome = Result<AgentResult, RunFailure>;

impl<'e, E: DurableEngine> Trial<'e, E> {
    /// Creates a run with a new id and an empty log.
    pub(crate) fn new(engine: &'e E, part: &str, kind: Kind) -> Self {
        let scenario = Scenario::of(kind);
        let case = Case::new("durable engine", part, scenario.name());
        let run_id = format!("{}-{:016x}", scenario.name(), unique());
        let directory = case.ok(tempfile::tempdir());
        // Each run has its own path, because an engine may identify a run by its log.
        let log = EffectLog::new(directory.path().join(&run_id));
        Self { engine, scenario, run_id, log, case, directory }
    }

    /// Runs the scenario on the engine and sends its signals.
    pub(crate) async fn run(&self) -> Outcome {
        let run = run_with_signals(self.engine, &self.run_id, &self.scenario, &self.log);
        outcome(&self.case, self.case.soon(run).await, &self.log)
    }

    /// Returns the expected result, and the expected model calls and tool calls, from a run without an engine.
    pub(crate) async fn expected(&self) -> (Outcome, Vec<EffectKind>) {
        let log = EffectLog::new(self.directory.path().join("expected"));
        let (local, plain) = (LocalEngine::default(), self.scenario.plain());
        let run = run_with_signals(&local, &self.run_id, &plain, &log);
        let result = self.case.step("without an engine").soon(run).await;
        (outcome(&self.case, result, &log), done(&log))
    }

    /// Runs the scenario, and checks the run and its replay. A run without an engine must have the same result, model
    /// calls and tool calls. Returns the result of the run.
    pub(crate) async fn like_local(&self) -> Outcome {
        let (expected, effects) = self.expected().await;
        let actual = self.run().await;
        same(&self.case, &actual, &expected);
        self.case.equal("what was done", done(&self.log), effects);
        self.replayed(&actual).await;
        actual
    }

    /// Runs the ended run again with the same id, and then replays it. Both must have the result `first` and must make
    /// no model call and no tool call.
    pub(crate) async fn replayed(&self, first: &Outcome) {
        effects::check_keys(&self.case, &self.log);
        let before = done(&self.log);
        if self.engine.keeps_runs() {
            let case = self.case.step("run again");
            let run = self.engine.run(&self.run_id, &self.scenario, &self.log);
            same(&case, &outcome(&case, case.soon(run).await, &self.log), first);
            case.equal("what was done", done(&self.log), before.clone());
        }
        let case = self.case.step("replayed");
        let replay = self.engine.replay(&self.run_id, &self.scenario, &self.log);
        if let (Some(Err(failure)), Ok(_)) = (case.soon(replay).await, first) {
            case.fail(format_args!("failed: {failure}"));
        }
        case.equal("what was done", done(&self.log), before);
        effects::check_clock(&case, &self.log);
        // An execution that continued as new has an end of its own. All other executions have the same end.
        let mut ends = self.log.ends();
        ends.retain(|(_, text)| !text.contains("continue as new"));
        ends.dedup();
        case.equal("the different ends of the agent's code", ends.len().max(1), 1);
    }
}

/// Returns the model calls and the tool calls of a log, sorted and without idempotency keys.
pub(crate) fn done(log: &EffectLog) -> Vec<EffectKind> {
    let mut done = log.select(|kind| match kind {
        // The key contains the run's id, which differs between runs.
        EffectKind::ToolStarted { tool, call_id, .. } => {
            Some(EffectKind::ToolStarted { tool, call_id, key: String::new() })
        }
        EffectKind::ModelCalled { .. } => Some(kind),
        _ => None,
    });
    done.sort_by_key(|kind| format!("{kind:?}"));
    done
}

/// Completes a failed result with the kind and the text of the error from the log, because some engines do not report
/// them.
pub(crate) fn outcome(
    case: &Case,
    result: Result<AgentResult, RunFailure>,
    log: &EffectLog,
) -> Outcome {
    let mut failure = match result {
        Ok(result) => return Ok(result),
        Err(failure) => failure,
    };
    if let Some((kind, text)) = log.last_end().filter(|(kind, _)| kind != "Ok") {
        let known = failure.kind.replace(kind.clone());
        case.equal("the kind of the failure", known.unwrap_or_else(|| kind.clone()), kind);
        failure.text = text;
    }
    Err(failure)
}

/// Checks that two runs have the same result. Compares messages, usage and turns first, for a better error message.
pub(crate) fn same(case: &Case, actual: &Outcome, expected: &Outcome) {
    if let (Ok(actual), Ok(expected)) = (actual, expected) {
        same_messages(case, &actual.messages, &expected.messages);
        case.equal("the usage", &actual.usage, &expected.usage);
        case.equal("the turns", actual.turns, expected.turns);
    }
    case.equal("the outcome", actual, expected);
}

/// Checks that two conversations are equal.
pub(crate) fn same_messages(case: &Case, actual: &[Message], expected: &[Message]) {
    case.equal("the number of messages", actual.len(), expected.len());
    for (index, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        case.equal(&format!("message {index}"), actual, expected);
    }
}
