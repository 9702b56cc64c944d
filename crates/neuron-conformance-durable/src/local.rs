//! [`LocalEngine`]: scenarios without a journal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_runtime::{LocalDurableContext, LocalSignals};
use neuron_types::{AgentResult, Durability, DurableAgent};
use serde_json::Value;

use crate::effects::EffectLog;
use crate::engine::{DurableEngine, RunFailure};
use crate::scenario::Scenario;

/// Runs scenarios on a [`LocalDurableContext`], which journals nothing: what a run must come to on every
/// engine.
#[derive(Debug, Default)]
pub struct LocalEngine {
    /// Of the runs, by their ids.
    signals: Mutex<HashMap<String, LocalSignals>>,
}

impl LocalEngine {
    /// Lets signals reach a run.
    fn listen(&self, run_id: &str, handle: LocalSignals) {
        let mut signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        signals.insert(run_id.to_owned(), handle);
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
        self.listen(run_id, context.signals());
        let agent = scenario.agent(log);
        let result = agent.run(scenario.start(), Durability::new(context)).await;
        result.map_err(RunFailure::from)
    }

    async fn signal(&self, run_id: &str, name: &str, value: Value) -> Result<(), RunFailure> {
        let signals = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
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
