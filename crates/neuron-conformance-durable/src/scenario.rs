//! [`Scenario`]: an agent by name, which any process can build.

use std::sync::Arc;
use std::time::Duration;

use neuron_loop::{ApprovalSignal, LoopConfig, ToolErrorPolicy};
use neuron_tool::ToolRegistry;
use neuron_types::{ActivityOptions, ApprovalDecisions, RetryPolicy, RunStart, UsageLimits};
use serde_json::{Value, json};

use crate::agent::{APPROVAL, ScenarioAgent};
use crate::effects::{EffectKind, EffectLog};
use crate::model::ScenarioProvider;
use crate::{script, tools};

/// How long a scenario waits for a signal that does not come.
const SOON: Duration = Duration::from_millis(150);

/// How long it waits for one that does.
const LATE: Duration = Duration::from_secs(600);

/// A run that is known beforehand: a model with a script, tools, and an agent, by a name with which any
/// process builds them again.
///
/// All of it is deterministic, and what the agent's own code does follows from what the durable context
/// gives it: it uses no clock, randomness or environment, and no timer or channel of a runtime. It writes
/// to its [`EffectLog`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    pub(crate) kind: Kind,
    /// Whether the agent's code is not the one that began.
    is_changed: bool,
}

/// Which scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Everything, in five turns.
    Crash,
    /// Errors that the model sees: a retry, a failed call, an unknown tool, a denied call.
    Errors,
    /// The failure of a tool ends the run.
    ToolFails,
    /// Calls of one answer of which the first takes longest.
    Parallel,
    /// A rate limit, with the time to wait.
    ModelFails,
    /// A call of the model that succeeds when it is made again, and tools that do.
    Retries,
    /// A person says no, after something that is no decision.
    Denied,
    /// No person says anything.
    NotDecided,
    /// A limit on turns, tool calls, tokens.
    MaxTurns,
    ToolLimit,
    TokenLimit,
    /// A result and an answer that are too long for a record.
    HugeResult,
    HugeAnswer,
    /// So many turns with four kilobytes each.
    Long(usize),
    /// Six turns, after every second of which the run continues as new.
    Continues,
    /// The same with a limit of five turns.
    ContinuesToLimit,
    /// `Continues` in one execution.
    ToLimit,
    /// `Errors`, as a stream.
    Streams,
    /// Signals before they are waited for, in time, and too late.
    Signals,
    /// The engine's clock.
    Clock,
    /// Waits for a decision until it is cancelled.
    Cancelled,
}

use Kind as K;

/// Each by its name.
const NAMES: [(&str, Kind); 20] = [
    ("crash", K::Crash),
    ("errors", K::Errors),
    ("tool-fails", K::ToolFails),
    ("parallel", K::Parallel),
    ("model-fails", K::ModelFails),
    ("retries", K::Retries),
    ("denied", K::Denied),
    ("not-decided", K::NotDecided),
    ("max-turns", K::MaxTurns),
    ("tool-limit", K::ToolLimit),
    ("token-limit", K::TokenLimit),
    ("huge-result", K::HugeResult),
    ("huge-answer", K::HugeAnswer),
    ("continues", K::Continues),
    ("continues-to-limit", K::ContinuesToLimit),
    ("to-limit", K::ToLimit),
    ("streams", K::Streams),
    ("signals", K::Signals),
    ("clock", K::Clock),
    ("cancelled", K::Cancelled),
];

/// What is told to a run from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioSignal {
    /// The signal's name.
    pub name: String,
    /// What it says.
    pub value: Value,
    /// When it is sent: once this is in the run's [`EffectLog`].
    pub after: EffectKind,
}

impl Scenario {
    /// The one for crashes: parallel tools of every effect, a retry by the model, an approval, a compaction
    /// by a model, and a tool that takes tokens itself, in five turns.
    #[must_use]
    pub fn crash() -> Self {
        Self::of(K::Crash)
    }

    /// One of so many turns, with a tool's result of four kilobytes in each but the last.
    #[must_use]
    pub fn long(turns: usize) -> Self {
        Self::of(K::Long(turns))
    }

    pub(crate) fn of(kind: Kind) -> Self {
        Self { kind, is_changed: false }
    }

    /// Finds a scenario by what [`name`](Self::name) gave.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (base, is_changed) = match name.strip_suffix(CHANGED) {
            Some(base) => (base, true),
            None => (name, false),
        };
        let kind = match base.strip_prefix(LONG) {
            Some(turns) => K::Long(turns.parse().ok()?),
            None => NAMES.iter().find(|(name, _)| *name == base)?.1,
        };
        Some(Self { kind, is_changed })
    }

    /// Returns the name: lower case letters, digits and hyphens.
    #[must_use]
    pub fn name(&self) -> String {
        let base = match self.kind {
            K::Long(turns) => format!("{LONG}{turns}"),
            kind => {
                NAMES.iter().find(|(_, other)| *other == kind).map_or("", |(name, _)| name).into()
            }
        };
        let suffix = if self.is_changed { CHANGED } else { "" };
        base + suffix
    }

    /// The same with another system prompt: what an engine sees of a run whose code was changed.
    #[must_use]
    pub fn with_changed_code(&self) -> Self {
        Self { is_changed: true, ..self.clone() }
    }

    /// Whether its code is not the one that began.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// The scenario that must give the same without an engine.
    pub(crate) fn plain(&self) -> Self {
        Self::of(match self.kind {
            K::Continues => K::Long(6),
            K::ContinuesToLimit => K::ToLimit,
            K::Streams => K::Errors,
            kind => kind,
        })
    }

    /// Builds the provider that an engine calls.
    #[must_use]
    pub fn provider(&self, log: &EffectLog) -> ScenarioProvider {
        ScenarioProvider::new(script::of(self.kind), log.clone())
    }

    /// Builds the tools that an engine calls.
    #[must_use]
    pub fn tools(&self, log: &EffectLog) -> Arc<ToolRegistry> {
        Arc::new(tools::registry(log))
    }

    /// Builds the agent that an engine hosts.
    #[must_use]
    pub fn agent(&self, log: &EffectLog) -> ScenarioAgent {
        ScenarioAgent::new(self.clone(), log.clone())
    }

    /// Returns what the run starts from.
    #[must_use]
    pub fn start(&self) -> RunStart {
        RunStart::from("Plan the journey.")
    }

    /// Returns the signals that the run gets, in order.
    #[must_use]
    pub fn signals(&self) -> Vec<ScenarioSignal> {
        let decisions =
            |decisions: ApprovalDecisions| serde_json::to_value(decisions).unwrap_or_default();
        match self.kind {
            K::Crash => {
                let approve = decisions(ApprovalDecisions::new().approve("call-2-1"));
                vec![ScenarioSignal::awaited(APPROVAL, 0, approve)]
            }
            K::Denied => {
                let deny = decisions(ApprovalDecisions::new().deny("call-0-1", "it is too much"));
                vec![
                    ScenarioSignal::awaited(APPROVAL, 0, json!("what is this?")),
                    ScenarioSignal::awaited(APPROVAL, 1, deny),
                ]
            }
            K::Signals => {
                let early = |name: &str, value| ScenarioSignal {
                    name: name.into(),
                    value,
                    after: tools::pause_begins(),
                };
                vec![
                    early("early", json!({"first": 1})),
                    early("twice", json!(1)),
                    early("twice", json!(2)),
                    ScenarioSignal::awaited("late", 0, json!("at last")),
                ]
            }
            _ => Vec::new(),
        }
    }

    /// How the agent runs.
    pub(crate) fn config(&self) -> LoopConfig {
        let prompt = if self.is_changed { "Plan otherwise." } else { "Plan." };
        let attempts = if self.kind == K::Retries { 3 } else { 1 };
        // Set, so that the numbers of calls are known.
        let activity = ActivityOptions {
            retry_policy: Some(RetryPolicy {
                initial_interval: Duration::from_millis(1),
                backoff_coefficient: 1.0,
                maximum_attempts: attempts,
                maximum_interval: Duration::from_millis(1),
                non_retryable_errors: Vec::new(),
            }),
            ..ActivityOptions::default()
        };
        let timeout = if self.kind == K::NotDecided { SOON } else { LATE };
        let limits = UsageLimits::default();
        LoopConfig {
            system_prompt: prompt.into(),
            max_turns: match self.kind {
                K::MaxTurns => Some(2),
                K::ContinuesToLimit | K::ToLimit => Some(5),
                _ => Some(100),
            },
            usage_limits: match self.kind {
                K::ToolLimit => Some(UsageLimits { tool_calls_limit: Some(3), ..limits }),
                K::TokenLimit => Some(UsageLimits { total_tokens_limit: Some(1100), ..limits }),
                _ => None,
            },
            parallel_tool_execution: true,
            tool_errors: match self.kind {
                K::ToolFails => ToolErrorPolicy::EndRun,
                _ => ToolErrorPolicy::ReturnToModel,
            },
            approval_signal: Some(ApprovalSignal { name: APPROVAL.into(), timeout }),
            llm_activity: activity.clone(),
            tool_activity: activity,
            ..LoopConfig::default()
        }
    }

    /// After how many turns of an execution it continues as new.
    pub(crate) fn continues_after(&self) -> Option<usize> {
        matches!(self.kind, K::Continues | K::ContinuesToLimit).then_some(2)
    }
}

/// What precedes the number of turns in a name.
const LONG: &str = "long-";

/// What follows the name of one whose code was changed.
const CHANGED: &str = "-changed";

impl ScenarioSignal {
    /// One that is sent once the run waits for it.
    fn awaited(name: &str, number: usize, value: Value) -> Self {
        let after = EffectKind::Waits { signal: name.into(), number };
        Self { name: name.into(), value, after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_found_by_its_name() {
        let all = NAMES.iter().map(|(_, kind)| Scenario::of(*kind)).chain([Scenario::long(17)]);
        for scenario in all {
            for scenario in [scenario.with_changed_code(), scenario] {
                assert_eq!(Scenario::named(&scenario.name()), Some(scenario));
            }
        }
        for other in ["", "crashes", "long-", "long-x", "-changed", "crash-changed-changed"] {
            assert_eq!(Scenario::named(other), None, "{other}");
        }
    }
}
