//! Conformance suite for durable engines and their adapters, the implementations of
//! [`DurableContext`](neuron_types::DurableContext).
//!
//! You write a [`DurableEngine`], which starts and resumes runs of a [`Scenario`] on your engine, and sends them
//! signals. A scenario has a [provider](Scenario::provider), [tools](Scenario::tools), and an [agent](Scenario::agent).
//! The agent is a [`DurableAgent`](neuron_types::DurableAgent) for your engine to host. Any process can build a
//! scenario from its name. Each model call and tool call is logged in an [`EffectLog`], a file to which all processes
//! of a run append.
//!
//! Call each part from a separate test, so that the test runner shows which part failed. The panic message names the
//! case. [`check_durable_engine`] runs all parts. The results are compared with those of the same agent
//! [without a journal](LocalEngine).
//!
//! | part | checks that |
//! |---|---|
//! | [`replaying`] | a run has the same messages, usage and turns as without an engine, and is replayed without effects |
//! | [`tool_errors`] | failed, denied and unknown tool calls, and failures that end the run, are the same on replay |
//! | [`model_errors`] | an error of the model is the same on replay, with its `retry_after` |
//! | [`retries`] | failed calls are retried as often as the options allow, and `AtMostOnce` calls never |
//! | [`parallel_tools`] | results of parallel tool calls are in the order of the calls |
//! | [`tool_scopes`] | a tool call is polled inside its own scope, and a replayed call enters no scope |
//! | [`approvals`] | a denial, a signal that is not a decision, and a missing decision have the same effect on replay |
//! | [`limits`] | limits end a run and its replay in the same way |
//! | [`streams`] | a streamed run has the same result, and its deltas add up to its responses |
//! | [`signals`] | signals are received in order for each name, unless they arrive after the wait |
//! | [`clock`] | the clock does not go back, and a replay reads the same times |
//! | [`changed_code`] | changed code is detected before it has an effect, and the original code resumes the run |
//! | [`record_limit`] | a result that is too long for a record is an error, and the call is not repeated |
//! | [`growth`] | the journal grows with the new messages, not with the square of the turns |
//! | [`continuing`] | a run that continues as new keeps its state and its limits |
//! | [`recorded_values`] | a replay has the values that were recorded |
//! | [`effect_keys`] | several calls with the same effect key have only one effect |
//! | [`shared_effect_keys`] | calls of several agents with the same effect key have only one effect |
//! | [`sub_agents`] | the steps of agents inside tool calls are journaled, and their hooks, permissions and approvals hold |
//! | [`cancelling`] | a waiting run can be cancelled, and has no further effects |
//!
//! Tests that kill processes are in [`crash`], because they start their own binary again.
//!
//! A part that does not apply to an engine returns [`Verdict::NotApplicable`]. Compare
//! [`Report::not_applicable`] with the parts that you expect.
//!
//! A part needs a tokio runtime of any flavour with an enabled timer. The clock must not be paused. Each call of a part
//! uses new run ids, so the engine may have other runs.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuron_durable::{LocalDurableContext, LocalSignals};
//! use neuron_conformance_durable::*;
//! use neuron_types::{AgentResult, Durability, DurableAgent};
//! use serde_json::Value;
//!
//! /// An engine without a journal. Yours opens the journal of the run in `run`.
//! #[derive(Default)]
//! struct MyEngine {
//!     signals: std::sync::Mutex<std::collections::HashMap<String, LocalSignals>>,
//! }
//!
//! impl DurableEngine for MyEngine {
//!     async fn run(
//!         &self,
//!         run_id: &str,
//!         scenario: &Scenario,
//!         log: &EffectLog,
//!     ) -> Result<AgentResult, RunFailure> {
//!         let context = LocalDurableContext::new(Arc::new(scenario.provider(log)), scenario.tools(log));
//!         self.signals.lock().unwrap().insert(run_id.into(), context.signals());
//!         let agent = scenario.agent(log);
//!         Ok(agent.run(scenario.start(), Durability::new(context)).await?)
//!     }
//!
//!     async fn signal(&self, run_id: &str, name: &str, value: Value) -> Result<(), RunFailure> {
//!         let signals = self.signals.lock().unwrap()[run_id].clone();
//!         signals.send(name, value).map_err(RunFailure::new)
//!     }
//!
//!     fn keeps_runs(&self) -> bool {
//!         false
//!     }
//! }
//!
//! // In your tests: one `#[tokio::test]` per part.
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let engine = MyEngine::default();
//! assert_eq!(tool_errors(&engine).await, Verdict::Holds);
//! assert_eq!(growth(&engine).await, Verdict::NotApplicable("the engine does not say how large a journal is"));
//! # }
//! ```
//!
//! # Engines with a server
//!
//! - The host of the agent may be a task in the test's process that your `DurableEngine` owns. The host builds the
//!   scenario from its [name](Scenario::name). Pass the name and the [path](EffectLog::path) of the log in the input of
//!   the run.
//! - A [`RunFailure`] does not need the error's kind, because the agent logs its end.
//! - Implement [`change_code`](DurableEngine::change_code), [`replay`](DurableEngine::replay) and
//!   [`is_code_change`](DurableEngine::is_code_change), because dropping the future of a run does not stop its host.

pub mod crash;

mod agent;
mod boundary;
mod effects;
mod engine;
mod model;
mod observed;
mod parts;
mod scenario;
mod script;
mod team;
mod tools;
mod trial;

use std::fmt;

pub use agent::ScenarioAgent;
pub use boundary::boundary;
pub use effects::{Effect, EffectKind, EffectLog, check_effects};
pub use engine::{DurableEngine, LocalEngine, RunFailure, run_with_signals};
pub use model::ScenarioProvider;
pub use parts::{
    approvals, cancelling, changed_code, clock, continuing, effect_keys, growth, limits,
    model_errors, parallel_tools, record_limit, recorded_values, replaying, retries,
    shared_effect_keys, signals, streams, sub_agents, tool_errors, tool_scopes,
};
pub use scenario::{Scenario, ScenarioSignal};

/// Result of a part of the suite. If a check fails, the part panics instead.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All checks passed.
    Holds,
    /// Some checks do not apply to the engine, for this reason. All other checks passed.
    NotApplicable(&'static str),
}

/// The verdicts of all parts. `Display` writes one line per part.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The verdicts with the names of their parts, in the order of the suite.
    pub verdicts: Vec<(&'static str, Verdict)>,
}

impl Report {
    /// Returns the names of the parts with the verdict [`NotApplicable`](Verdict::NotApplicable), which do not apply to
    /// the engine, or only in part.
    #[must_use]
    pub fn not_applicable(&self) -> Vec<&'static str> {
        let partly = self.verdicts.iter().filter(|(_, verdict)| *verdict != Verdict::Holds);
        partly.map(|(name, _)| *name).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, verdict) in &self.verdicts {
            match verdict {
                Verdict::Holds => writeln!(f, "{name}: holds")?,
                Verdict::NotApplicable(why) => writeln!(f, "{name}: NOT TRIED: {why}")?,
            }
        }
        Ok(())
    }
}

/// Calls your macro with the names of all parts.
///
/// Use it to define one test for each part. If a later release adds a part, your macro receives this part too.
///
/// # Example
///
/// ```
/// use neuron_conformance_durable::LocalEngine;
///
/// macro_rules! tests {
///     ($($part:ident)*) => {$(
///         #[tokio::test]
///         async fn $part() {
///             println!("{:?}", neuron_conformance_durable::$part(&LocalEngine::default()).await);
///         }
///     )*};
/// }
///
/// neuron_conformance_durable::durable_parts!(tests);
/// ```
#[macro_export]
macro_rules! durable_parts {
    ($tests:ident) => {
        $tests! {
            replaying tool_errors model_errors retries parallel_tools tool_scopes approvals limits
            streams signals clock recorded_values changed_code record_limit growth continuing cancelling effect_keys shared_effect_keys
            sub_agents
        }
    };
}

/// Runs all parts, one after the other, and returns their verdicts.
///
/// # Panics
///
/// If a check fails. The message names the part and the case.
pub async fn check_durable_engine(engine: &impl DurableEngine) -> Report {
    macro_rules! check {
        ($($part:ident)*) => {
            Report { verdicts: vec![$((stringify!($part), $part(engine).await)),*] }
        };
    }
    durable_parts!(check)
}
