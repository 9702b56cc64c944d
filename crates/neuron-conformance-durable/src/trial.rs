//! One run of a scenario on the engine under test, and what it must come to.

use std::path::PathBuf;

use neuron_types::AgentResult;

use crate::effects::{self, EffectKind, EffectLog};
use crate::engine::{DurableEngine, RunFailure, run_with_signals};
use crate::local::LocalEngine;
use crate::scenario::{Kind, Scenario};
use neuron_conformance::case::Case;
use neuron_conformance::random::unique;

/// A run on the engine under test.
pub(crate) struct Trial<'e, E> {
    pub(crate) engine: &'e E,
    pub(crate) scenario: Scenario,
    pub(crate) run_id: String,
    pub(crate) log: EffectLog,
    pub(crate) case: Case,
    directory: Directory,
}

/// A directory that goes with its value.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a run came to, as the agent's code saw it.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    Answered(Box<AgentResult>),
    Failed { kind: String, text: String },
}

impl<'e, E: DurableEngine> Trial<'e, E> {
    pub(crate) fn new(engine: &'e E, part: &str, kind: Kind) -> Self {
        let scenario = Scenario::of(kind);
        let case = Case::new("durable engine", part, scenario.name());
        let run_id = format!("{}-{:016x}", scenario.name(), unique());
        let directory = Directory(std::env::temp_dir().join(format!("neuron-{run_id}")));
        case.ok(std::fs::create_dir_all(&directory.0));
        let log = EffectLog::new(directory.0.join("effects"));
        Self { engine, scenario, run_id, log, case, directory }
    }

    /// Runs it to its end.
    pub(crate) async fn run(&self) -> Outcome {
        let run = run_with_signals(self.engine, &self.run_id, &self.scenario, &self.log);
        let result = self.case.soon(run).await;
        outcome(&self.case, result, &self.log)
    }

    /// What the run must come to: what it comes to without an engine; and what it does.
    pub(crate) async fn expected(&self) -> (Outcome, Vec<EffectKind>) {
        let log = EffectLog::new(self.directory.0.join("expected"));
        let (local, plain) = (LocalEngine::default(), self.scenario.plain());
        let run = run_with_signals(&local, &self.run_id, &plain, &log);
        let result = self.case.step("without an engine").soon(run).await;
        (outcome(&self.case, result, &log), done(&log))
    }

    /// Runs it to its end, which must be the one that it comes to without an engine, with the same
    /// effects; then has it replayed.
    pub(crate) async fn like_local(&self) -> Outcome {
        let (expected, effects) = self.expected().await;
        let actual = self.run().await;
        same(&self.case, &actual, &expected);
        self.case.equal("what was done", done(&self.log), effects);
        self.replayed(&actual).await;
        actual
    }

    /// Runs it once more, and has it replayed: it does nothing, and comes to the same.
    pub(crate) async fn replayed(&self, first: &Outcome) {
        effects::check_keys(&self.case, &self.log);
        let before = done(&self.log);
        if self.engine.keeps_runs() {
            let case = self.case.step("run again");
            let run = self.engine.run(&self.run_id, &self.scenario, &self.log);
            let again = outcome(&case, case.soon(run).await, &self.log);
            same(&case, &again, first);
            case.equal("what was done", done(&self.log), before.clone());
        }
        let case = self.case.step("replayed");
        let replay = self.engine.replay(&self.run_id, &self.scenario, &self.log);
        let replayed = case.soon(replay).await;
        if let (Some(Err(failure)), Outcome::Answered(_)) = (replayed, first) {
            case.fail(format_args!("failed: {failure}"));
        }
        case.equal("what was done", done(&self.log), before);
        effects::check_told(&case, &self.log);
        // Whoever ran the agent's code, and however often, it came to this end.
        let mut ends = ends(&self.log);
        ends.dedup();
        case.equal("the different ends of the agent's code", ends.len().max(1), 1);
    }
}

/// The ends of executions of the agent's code, but for those that continue as new.
fn ends(log: &EffectLog) -> Vec<(String, String)> {
    let ends = log.effects().into_iter().filter_map(|effect| match effect.kind {
        EffectKind::Ended { kind, text } => Some((kind, text)),
        _ => None,
    });
    ends.filter(|(_, text)| !text.contains("continue as new")).collect()
}

/// What was done, in the order of the names.
pub(crate) fn done(log: &EffectLog) -> Vec<EffectKind> {
    let effects = log.effects().into_iter().map(|effect| effect.kind);
    let mut done: Vec<_> = effects
        .filter_map(|kind| match kind {
            // It holds the run's id.
            EffectKind::ToolStarted { tool, call_id, .. } => {
                Some(EffectKind::ToolStarted { tool, call_id, key: String::new() })
            }
            EffectKind::ModelCalled { .. } => Some(kind),
            _ => None,
        })
        .collect();
    done.sort_by_key(|kind| format!("{kind:?}"));
    done
}

/// What came of a run. Of a failure the log knows more than some engines hand on.
pub(crate) fn outcome(
    case: &Case,
    result: Result<AgentResult, RunFailure>,
    log: &EffectLog,
) -> Outcome {
    let failure = match result {
        Ok(result) => return Outcome::Answered(Box::new(result)),
        Err(failure) => failure,
    };
    match log.last_end() {
        Some((kind, text)) if kind != "Ok" => {
            if let Some(known) = &failure.kind {
                case.equal("the kind of the failure", known, &kind);
            }
            Outcome::Failed { kind, text }
        }
        _ => {
            let kind = failure.kind.unwrap_or_default();
            Outcome::Failed { kind, text: failure.text }
        }
    }
}

/// Compares what runs came to.
pub(crate) fn same(case: &Case, actual: &Outcome, expected: &Outcome) {
    if let (Outcome::Answered(actual), Outcome::Answered(expected)) = (actual, expected) {
        let (is, must_be) = (&actual.messages, &expected.messages);
        case.equal("the number of messages", is.len(), must_be.len());
        for (index, pair) in is.iter().zip(must_be).enumerate() {
            case.equal(&format!("message {index}"), pair.0, pair.1);
        }
        case.equal("the usage", &actual.usage, &expected.usage);
        case.equal("the turns", actual.turns, expected.turns);
    }
    case.equal("the outcome", actual, expected);
}
