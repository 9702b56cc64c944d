//! Scenarios, which are agents that any process can build by name ([`Scenario`]).

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

/// A run with a scripted model, tools and an agent. Any process can build a scenario from its name.
///
/// A scenario is deterministic. Apart from writing to its [`EffectLog`], the agent's code uses only the durable
/// context. It uses no clock, no randomness, no environment, and no timer or channel of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    pub(crate) kind: Kind,
    /// Set if the agent's code differs from the code that began the run.
    pub(crate) is_changed: bool,
}

/// The kinds of scenarios. Their names are in kebab case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Tools of every effect, a retry, an approval and a compaction, in five turns.
    Crash,
    /// The model receives a retry request, a failed call, an unknown tool and a denied call.
    Errors,
    /// A failed tool call ends the run.
    ToolFails,
    /// The model makes four parallel calls in a response, and the first call takes longest.
    Parallel,
    /// The model call fails with a rate limit error that contains a `retry_after` delay.
    ModelFails,
    /// The first attempts at a model call and at two tool calls fail.
    Retries,
    /// A person denies a tool call. Before the denial, the run receives a signal whose value is not a valid decision.
    Denied,
    /// A tool call needs an approval, but no decision arrives before the deadline.
    NotDecided,
    /// The run reaches the limit of turns.
    MaxTurns,
    /// The run reaches the limit of tool calls.
    ToolLimit,
    /// The run reaches the limit of tokens.
    TokenLimit,
    /// A tool result exceeds the maximum size of a journal record.
    HugeResult,
    /// A model response exceeds the maximum size of a journal record.
    HugeAnswer,
    /// The run has this number of turns, with a tool result of four kilobytes in all turns but the last.
    #[serde(skip)]
    Long(usize),
    /// The run has six turns, and continues as new after every second turn.
    Continues,
    /// The run continues as new after every second turn, and reaches its limit of five turns.
    ContinuesToLimit,
    /// The run reaches its limit of five turns in one execution.
    ToLimit,
    /// The script of `Errors`, with streamed model responses.
    Streams,
    /// The agent waits for signals that are sent before the wait, during the wait, or not before the timeout.
    Signals,
    /// The agent reads the engine's clock.
    Clock,
    /// The agent records values that differ in each execution of its code.
    Records,
    /// The run waits for the approval of a tool call until the run is cancelled.
    Cancelled,
    /// The model repeats tool calls with the same [effect key](neuron_types::Tool::effect_key), which must have only
    /// one effect. The run continues as new after every second turn.
    EffectKeys,
    /// The outer agent calls an agent, which calls another agent. Both nested agents have twelve turns.
    Team,
    /// Two nested agents run concurrently, and one of them needs an approval.
    TeamAsks,
    /// The outer agent and nested agents of two depths make calls with the same
    /// [effect key](neuron_types::Tool::effect_key), at the same time and one after the other. The run continues as new
    /// after every second turn.
    TeamSettles,
}

use Kind as K;

/// A signal that a test sends to a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioSignal {
    /// Name of the signal.
    pub name: String,
    /// Value of the signal.
    pub value: Value,
    /// Effect after which the signal is sent, as soon as the run's [`EffectLog`] has it.
    pub after: EffectKind,
}

impl Scenario {
    /// Returns the scenario for crash tests.
    ///
    /// The run has five turns, which contain:
    ///
    /// - Parallel tool calls of every [`ToolEffect`](neuron_types::ToolEffect).
    /// - A tool call that the model retries, and a tool call that needs an approval.
    /// - A tool that uses tokens.
    /// - A compaction by a model.
    #[must_use]
    pub fn crash() -> Self {
        Self::of(K::Crash)
    }

    /// Returns the scenario for crashes inside nested agents.
    ///
    /// The outer agent calls an agent of twelve turns, which calls another agent of twelve turns. The innermost agent
    /// has tools of every [`ToolEffect`](neuron_types::ToolEffect), a denied call and parallel calls.
    #[must_use]
    pub fn team() -> Self {
        Self::of(K::Team)
    }

    /// Returns the scenario for crashes between calls with equal [effect keys](neuron_types::Tool::effect_key).
    ///
    /// The model repeats a payment in the same turn, in later turns, and after the run continued as new.
    #[must_use]
    pub fn effect_keys() -> Self {
        Self::of(K::EffectKeys)
    }

    /// Returns the scenario for crashes between calls with equal [effect keys](neuron_types::Tool::effect_key) of
    /// different agents.
    ///
    /// Two nested agents pay the same invoice at the same time. In later turns, another call of a nested agent and the
    /// outer agent pay it again. The run continues as new in between.
    #[must_use]
    pub fn team_effect_keys() -> Self {
        Self::of(K::TeamSettles)
    }

    /// Returns a scenario with this number of turns. All turns but the last have a tool result of four kilobytes.
    #[must_use]
    pub fn long(turns: usize) -> Self {
        Self::of(K::Long(turns))
    }

    /// Returns the scenario of a kind, with unchanged code.
    pub(crate) fn of(kind: Kind) -> Self {
        Self { kind, is_changed: false }
    }

    /// Returns the scenario with this [`name`](Self::name). Returns `None` if there is no such scenario.
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

    /// Returns the name of the scenario, which consists of lower case letters, digits and hyphens.
    #[must_use]
    pub fn name(&self) -> String {
        let base = match self.kind {
            K::Long(turns) => format!("{LONG}{turns}"),
            kind => json!(kind).as_str().unwrap_or_default().to_owned(),
        };
        base + if self.is_changed { CHANGED } else { "" }
    }

    /// Returns the same scenario with another system prompt, to simulate a change of the agent's code.
    #[must_use]
    pub fn with_changed_code(&self) -> Self {
        Self { is_changed: true, ..*self }
    }

    /// Returns a variant of the scenario for a run without an engine. The variant has the same result, and is neither
    /// streamed nor continued as new.
    pub(crate) fn plain(&self) -> Self {
        Self::of(match self.kind {
            K::Continues => K::Long(6),
            K::ContinuesToLimit => K::ToLimit,
            K::Streams => K::Errors,
            kind => kind,
        })
    }

    /// Creates the provider that the engine calls.
    #[must_use]
    pub fn provider(&self, log: &EffectLog) -> ScenarioProvider {
        ScenarioProvider { kind: self.kind, log: log.clone() }
    }

    /// Creates the tools that the engine calls.
    #[must_use]
    pub fn tools(&self, log: &EffectLog) -> Arc<ToolRegistry> {
        Arc::new(tools::registry(self.kind, log))
    }

    /// Creates the agent that the engine hosts.
    #[must_use]
    pub fn agent(&self, log: &EffectLog) -> ScenarioAgent {
        ScenarioAgent::new(*self, log.clone())
    }

    /// Returns the start of the run, which is a user message with a fixed text.
    #[must_use]
    pub fn start(&self) -> Start {
        Start::from("Plan the journey.")
    }

    /// Returns the signals that a test sends to the run, in order.
    #[must_use]
    pub fn signals(&self) -> Vec<ScenarioSignal> {
        let decisions = ApprovalDecisions::new();
        // Each signal is sent after a wait. The wait is identified by the name of its signal and its number.
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
        // Set explicitly, because the tests count the attempts.
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

    /// Returns the number of agents that work at the same time. If there are several, a kill may interrupt as many model
    /// calls, and the last boundary before it does not tell whether a tool call was interrupted.
    pub(crate) fn parallel_agents(&self) -> usize {
        if matches!(self.kind, K::TeamAsks | K::TeamSettles) { 2 } else { 1 }
    }

    /// Returns the number of turns after which the run continues as new. Returns `None` if it does not continue as new.
    pub(crate) fn continues_after(&self) -> Option<usize> {
        let continues =
            [K::Continues, K::ContinuesToLimit, K::EffectKeys, K::TeamSettles].contains(&self.kind);
        continues.then_some(2)
    }
}

/// Start of the name of a [`Kind::Long`] scenario. The number of turns follows.
const LONG: &str = "long-";

/// End of the name of a scenario with changed code.
const CHANGED: &str = "-changed";
