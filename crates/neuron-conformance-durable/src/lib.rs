//! Whether a durable engine, with its adapter, holds the contract of
//! [`DurableContext`](neuron_types::DurableContext).
//!
//! You write a [`DurableEngine`]: how a run of a [`Scenario`] is started or resumed on your engine, and how
//! it is sent a signal. A scenario is an agent that any process can build by its name: its
//! [provider](Scenario::provider), its [tools](Scenario::tools), and its [agent](Scenario::agent), a
//! [`DurableAgent`](neuron_types::DurableAgent) for your engine to host. Each call of its model and tools is
//! a line of an [`EffectLog`], a file to which all processes of a run append.
//!
//! Call one part a test: the test runner then says which part fails, and the panic says in which case.
//! [`check_durable_engine`] is all parts in one call. What an engine must come to is what the same agent comes
//! to [without a journal](LocalEngine).
//!
//! | part | what has to hold |
//! |---|---|
//! | [`replaying`] | a run comes to the same messages, usage and turns as without an engine, and is replayed without effects |
//! | [`tool_errors`] | what the model is told of a failed, denied or unknown call is replayed; so is a failure that ends the run |
//! | [`model_errors`] | a failure of the model is the same on replay, with the time that it asks for |
//! | [`retries`] | what may be tried again is, as the options say, and nothing else |
//! | [`parallel_tools`] | results are in the order of the calls |
//! | [`tool_scopes`] | a tool that runs is inside the scope of its own call; one that is replayed enters none |
//! | [`approvals`] | a denial, a signal that is none, and nobody deciding in time are replayed |
//! | [`limits`] | limits end a run and its replay alike |
//! | [`streams`] | a streamed run comes to the same, and its deltas are its answers |
//! | [`signals`] | signals before, in time and too late; those of one name in order |
//! | [`clock`] | it does not go back, and a replay sees the same times |
//! | [`changed_code`] | it is detected before it has an effect, and the right code goes on |
//! | [`record_limit`] | what is too long for a record is an error that says so, and is not paid again |
//! | [`growth`] | the journal grows with the new messages, not with the square of the turns |
//! | [`continuing`] | a run that continues as new carries all on, limits too |
//! | [`cancelling`] | a run that waits can be cancelled, and does nothing more |
//!
//! Processes that are killed are apart, because they need a test that starts itself again: see [`crash`].
//!
//! What does not apply to an engine is no silent success: the part returns
//! [`Verdict::NotApplicable`]. Compare [`Report::not_applicable`] with what you expect.
//!
//! A part needs a tokio runtime with time, of any flavour, whose clock is not paused. Runs have ids of their
//! own for every call: an engine may have others.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuron_runtime::{LocalDurableContext, LocalSignals};
//! use neuron_conformance_durable::*;
//! use neuron_types::{AgentResult, Durability, DurableAgent};
//! use serde_json::Value;
//!
//! /// An engine that keeps nothing. Yours opens the journal of the run in `run`, and has more to say.
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
//! // In your tests: one `#[tokio::test]` a part.
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
//! - What hosts the agent may live in the test's process, as a task that your `DurableEngine` owns. It builds
//!   the scenario by its [name](Scenario::name), which the run's input can carry with the
//!   [path](EffectLog::path) of the log.
//! - The agent writes to its log how it ended, so that a [`RunFailure`] need not know the error's kind.
//! - [`change_code`](DurableEngine::change_code), [`replay`](DurableEngine::replay) and
//!   [`says_that_code_changed`](DurableEngine::says_that_code_changed) are to be written for them: dropping
//!   the future of a run does not stop what hosts it.

pub mod crash;

mod agent;
mod boundary;
mod effects;
mod engine;
mod local;
mod model;
mod observed;
mod parts;
mod scenario;
mod scopes;
mod script;
mod tools;
mod trial;

use std::fmt;

pub use agent::ScenarioAgent;
pub use boundary::boundary;
pub use effects::{Effect, EffectKind, EffectLog, check_effects};
pub use engine::{DurableEngine, RunFailure, run_with_signals};
pub use local::LocalEngine;
pub use model::ScenarioProvider;
pub use parts::{
    approvals, cancelling, changed_code, clock, continuing, growth, limits, model_errors,
    parallel_tools, record_limit, replaying, retries, signals, streams, tool_errors, tool_scopes,
};
pub use scenario::{Scenario, ScenarioSignal};

/// What a part of the suite says of an engine; that something does not hold it says by a panic.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All of it holds.
    Holds,
    /// Some of it cannot be tried, for this reason; the rest holds.
    NotApplicable(&'static str),
}

/// What the suite says of an engine: a verdict for each part. As text it is a line a part.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The verdicts by the names of their parts, in the order of the suite.
    pub verdicts: Vec<(&'static str, Verdict)>,
}

impl Report {
    /// Returns the names of the parts of which something could not be tried: compare them with those that
    /// you expect.
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

/// Checks every part, one after the other.
///
/// # Panics
///
/// At the first thing that does not hold; the text names the part and the case.
pub async fn check_durable_engine(engine: &impl DurableEngine) -> Report {
    Report {
        verdicts: vec![
            ("replaying", replaying(engine).await),
            ("tool_errors", tool_errors(engine).await),
            ("model_errors", model_errors(engine).await),
            ("retries", retries(engine).await),
            ("parallel_tools", parallel_tools(engine).await),
            ("tool_scopes", tool_scopes(engine).await),
            ("approvals", approvals(engine).await),
            ("limits", limits(engine).await),
            ("streams", streams(engine).await),
            ("signals", signals(engine).await),
            ("clock", clock(engine).await),
            ("changed_code", changed_code(engine).await),
            ("record_limit", record_limit(engine).await),
            ("growth", growth(engine).await),
            ("continuing", continuing(engine).await),
            ("cancelling", cancelling(engine).await),
        ],
    }
}
