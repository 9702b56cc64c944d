//! Runs the public conformance suite of durable engines, with a database file and in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use neuron_conformance_durable::{DurableEngine, EffectLog, RunFailure, Scenario, Verdict};
use neuron_durable_sqlite::{SqliteRuns, StepKind};
use neuron_types::{AgentResult, LoopError, ToolContext};
use serde_json::Value;

use crate::support::place;

/// Adapts [`SqliteRuns`] to the conformance suite of durable engines.
pub(crate) struct Engine {
    runs: SqliteRuns,
    cancelled: Mutex<HashMap<String, ToolContext>>,
}

impl Engine {
    pub(crate) fn new(runs: SqliteRuns) -> Self {
        Self { runs, cancelled: Mutex::default() }
    }
}

impl DurableEngine for Engine {
    async fn run(
        &self,
        run_id: &str,
        scenario: &Scenario,
        log: &EffectLog,
    ) -> Result<AgentResult, RunFailure> {
        let (provider, tools) = (Arc::new(scenario.provider(log)), scenario.tools(log));
        let context = self.runs.run(run_id).open(provider, tools).await.map_err(LoopError::from)?;
        let ctx = ToolContext::default();
        self.cancelled.lock().unwrap().insert(run_id.to_owned(), ctx.clone());
        let agent = scenario.agent(log).cancelled_with(&ctx);
        Ok(context.drive(scenario.start(), &agent).await?)
    }

    async fn signal(&self, run_id: &str, name: &str, value: Value) -> Result<(), RunFailure> {
        self.runs.signal(run_id, name, value).await.map_err(RunFailure::new)
    }

    async fn cancel(&self, run_id: &str) -> Option<Result<(), RunFailure>> {
        self.cancelled.lock().unwrap()[run_id].cancellation_token.cancel();
        Some(Ok(()))
    }

    async fn journal_bytes(&self, run_id: &str) -> Option<u64> {
        let steps = self.runs.inspect(run_id).await.unwrap().steps;
        assert!(steps.iter().any(|step| step.kind == StepKind::Model));
        Some(steps.iter().map(|step| step.bytes as u64).sum())
    }
}

macro_rules! parts {
    ($($part:ident)*) => {$(
        mod $part {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn suite_passes_with_a_file() {
                let (_folder, path) = place();
                let engine = Engine::new(SqliteRuns::open(&path).await.unwrap());
                assert_eq!(neuron_conformance_durable::$part(&engine).await, Verdict::Holds);
            }

            #[tokio::test]
            async fn suite_passes_in_memory() {
                let engine = Engine::new(SqliteRuns::open(":memory:").await.unwrap());
                assert_eq!(neuron_conformance_durable::$part(&engine).await, Verdict::Holds);
            }
        }
    )*};
}

neuron_conformance_durable::durable_parts!(parts);
