//! Agents that any process can build by name.

use std::sync::Arc;
use std::time::Duration;

use neuron_loop::{ApprovalSignal, LoopConfig, ToolErrorPolicy};
use neuron_tool::ToolRegistry;
use neuron_types::{ActivityOptions, ApprovalDecisions, RetryPolicy, Start, UsageLimits};
use serde::de::IntoDeserializer;
use serde::de::value::Error;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::{APPROVAL, ScenarioAgent};
use crate::effects::{EffectKind, EffectLog};
use crate::model::ScenarioProvider;
use crate::tools::{self, PAUSE};

/// A run with a scripted model, tools, and an agent, which any process can build by its name.
///
/// A scenario is deterministic. The agent's code uses only the durable context: no clock, randomness or
/// environment, and no timer or channel of a runtime. It writes to its [`EffectLog`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    pub(crate) kind: Kind,
    /// Set if the agent's code differs from the code that began the run.
    pub(crate) is_changed: bool,
}

/// The scenarios, by their names in kebab case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Everything, in five turns.
    Crash,
    /// Errors that the model sees: a retry, a failed call, an unknown tool, a denied call.
    Errors,
    /// The failure of a tool ends the run.
    ToolFails,
    /// Calls of one response, of which the first takes longest.
    Parallel,
    /// A rate limit, with the time to wait.
    ModelFails,
    /// A call of the model and tools that fail once.
    Retries,
    /// A call that is denied by a person, after a signal that is not a decision.
    Denied,
    /// No decision.
    NotDecided,
    /// A limit on turns, tool calls, tokens.
    MaxTurns,
    ToolLimit,
    TokenLimit,
    /// A result and a response that are too long for a record.
    HugeResult,
    HugeAnswer,
    /// So many turns with four kilobytes each.
    #[serde(skip)]
    Long(usize),
    /// Six turns. The run continues as new after every second turn.
    Continues,
    /// The same with a limit of five turns.
    ContinuesToLimit,
    /// `ContinuesToLimit` in one execution.
    ToLimit,
    /// `Errors`, as a stream.
    Streams,
    /// Signals that are sent early, in time, and too late.
    Signals,
    /// The engine's clock.
    Clock,
    /// Values from outside of the run.
    Records,
    /// Waits for a decision until it is cancelled.
    Cancelled,
    /// The model plans the same effects again. The run continues as new after every second turn.
    EffectKeys,
    /// An agent inside an agent, with twelve turns each.
    Team,
    /// Two agents at the same time, of which one needs an approval.
    TeamAsks,
}

use Kind as K;

/// A signal that a test sends to a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioSignal {
    /// The signal's name.
    pub name: String,
    /// The signal's value.
    pub value: Value,
    /// The signal is sent once this is in the run's [`EffectLog`].
    pub after: EffectKind,
}

impl Scenario {
    /// Returns the scenario for crashes.
    ///
    /// Its five turns have parallel tools of every effect, a retry by the model, an approval, a compaction by a
    /// model, and a tool that uses tokens.
    #[must_use]
    pub fn crash() -> Self {
        Self::of(K::Crash)
    }

    /// Returns the scenario for crashes inside agents.
    ///
    /// The agent calls an agent of twelve turns, which calls another agent of twelve turns. The innermost agent has tools of
    /// every effect, a denied call and parallel calls.
    #[must_use]
    pub fn team() -> Self {
        Self::of(K::Team)
    }

    /// Returns the scenario for crashes between calls with equal [effect keys](neuron_types::Tool::effect_key).
    ///
    /// The model plans a payment again, in the same turn, in later turns, and after the run continued as new.
    #[must_use]
    pub fn effect_keys() -> Self {
        Self::of(K::EffectKeys)
    }

    /// Returns a scenario of so many turns, with a tool result of four kilobytes in all turns but the last.
    #[must_use]
    pub fn long(turns: usize) -> Self {
        Self::of(K::Long(turns))
    }

    pub(crate) fn of(kind: Kind) -> Self {
        Self { kind, is_changed: false }
    }

    /// Returns the scenario with this [`name`](Self::name).
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (base, is_changed) = match name.strip_suffix(CHANGED) {
            Some(base) => (base, true),
            None => (name, false),
        };
        let kind = match base.strip_prefix(LONG) {
            Some(turns) => K::Long(turns.parse().ok()?),
            None => K::deserialize(IntoDeserializer::<Error>::into_deserializer(base)).ok()?,
        };
        Some(Self { kind, is_changed })
    }

    /// Returns the name, which has lower case letters, digits and hyphens.
    #[must_use]
    pub fn name(&self) -> String {
        let base = match self.kind {
            K::Long(turns) => format!("{LONG}{turns}"),
            kind => json!(kind).as_str().unwrap_or_default().to_owned(),
        };
        base + if self.is_changed { CHANGED } else { "" }
    }

    /// Returns the same scenario with another system prompt, as after a change of the agent's code.
    #[must_use]
    pub fn with_changed_code(&self) -> Self {
        Self { is_changed: true, ..*self }
    }

    /// Returns the scenario that has the same result without an engine.
    pub(crate) fn plain(&self) -> Self {
        Self::of(match self.kind {
            K::Continues => K::Long(6),
            K::ContinuesToLimit => K::ToLimit,
            K::Streams => K::Errors,
            kind => kind,
        })
    }

    /// Builds the provider for the engine.
    #[must_use]
    pub fn provider(&self, log: &EffectLog) -> ScenarioProvider {
        ScenarioProvider { kind: self.kind, log: log.clone() }
    }

    /// Builds the tools for the engine.
    #[must_use]
    pub fn tools(&self, log: &EffectLog) -> Arc<ToolRegistry> {
        Arc::new(tools::registry(self.kind, log))
    }

    /// Builds the agent for the engine.
    #[must_use]
    pub fn agent(&self, log: &EffectLog) -> ScenarioAgent {
        ScenarioAgent::new(*self, log.clone())
    }

    /// Returns the start of the run.
    #[must_use]
    pub fn start(&self) -> Start {
        Start::from("Plan the journey.")
    }

    /// Returns the signals for the run, in order.
    #[must_use]
    pub fn signals(&self) -> Vec<ScenarioSignal> {
        let decisions = ApprovalDecisions::new();
        // Each is sent after a wait: the signal that the wait is for, and its number.
        let signals = match self.kind {
            K::Crash => vec![(APPROVAL, json!(decisions.approve("call-2-1")), (APPROVAL, 0))],
            K::TeamAsks => {
                let wire = ApprovalDecisions::new().approve("clerk-0-1");
                let wire = decisions.nested("call-0-1", wire);
                vec![(APPROVAL, json!(wire), (APPROVAL, 0))]
            }
            K::Denied => vec![
                (APPROVAL, json!("what is this?"), (APPROVAL, 0)),
                (APPROVAL, json!(decisions.deny("call-0-1", "it is too much")), (APPROVAL, 1)),
            ],
            K::Signals => vec![
                ("early", json!({"first": 1}), (PAUSE, 0)),
                ("twice", json!(1), (PAUSE, 0)),
                ("twice", json!(2), (PAUSE, 0)),
                ("late", json!("at last"), ("late", 0)),
            ],
            _ => vec![],
        };
        let signal = |(name, value, (signal, number)): (&str, Value, (&str, usize))| {
            let after = EffectKind::Waits { signal: signal.to_owned(), number };
            ScenarioSignal { name: name.to_owned(), value, after }
        };
        signals.into_iter().map(signal).collect()
    }

    /// Returns the configuration of the agent.
    pub(crate) fn config(&self) -> LoopConfig {
        let prompt = if self.is_changed { "Plan otherwise." } else { "Plan." };
        let attempts = if self.kind == K::Retries { 3 } else { 1 };
        // Set, so that the number of calls is known.
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
        let timeout = match self.kind {
            K::NotDecided => Duration::from_millis(150),
            _ => Duration::from_secs(600),
        };
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

    /// Returns the number of turns after which an execution continues as new.
    pub(crate) fn continues_after(&self) -> Option<usize> {
        matches!(self.kind, K::Continues | K::ContinuesToLimit | K::EffectKeys).then_some(2)
    }
}

/// Prefix of the number of turns in a name.
const LONG: &str = "long-";

/// Suffix of the name of a scenario with changed code.
const CHANGED: &str = "-changed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_found_by_its_name() {
        let names = "crash errors tool-fails parallel model-fails retries denied not-decided max-turns tool-limit \
            token-limit huge-result huge-answer continues continues-to-limit to-limit streams signals clock records \
            cancelled effect-keys team team-asks long-17";
        for name in names.split_whitespace() {
            let scenario = Scenario::named(name).unwrap();
            assert_eq!(scenario.name(), name);
            let changed = scenario.with_changed_code();
            assert_eq!(Scenario::named(&changed.name()), Some(changed));
        }
        for other in ["", "crashes", "long", "long-", "long-x", "-changed", "crash-changed-changed"]
        {
            assert_eq!(Scenario::named(other), None, "{other}");
        }
    }
}
