//! An engine without a journal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_runtime::{LocalDurableContext, LocalSignals};
use neuron_types::{AgentResult, Durability, DurableAgent};
use serde_json::Value;

use crate::effects::EffectLog;
use crate::engine::{DurableEngine, RunFailure};
use crate::scenario::Scenario;

/// Runs scenarios on a [`LocalDurableContext`], without a journal.
///
/// Its results are those that every engine must have.
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
