//! Tests that a context can renew its lease while a step of its run is in progress.

use std::sync::Arc;
use std::time::Duration;

use neuron_durable::DurableOptions;
use neuron_sqlite::SqliteError;
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, DurableContext, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::test_support::{Echo, invocation, place, silent};
use crate::{SqliteOptions, SqliteRuns};

const LEASE: Duration = Duration::from_millis(150);

/// A tool whose result can be stored only after another writer has ended.
struct Busy(SqliteRuns, Echo);

impl ToolDyn for Busy {
    fn name(&self) -> &str {
        self.1.name()
    }

    fn definition(&self) -> ToolDefinition {
        self.1.definition()
    }

    fn effect(&self) -> ToolEffect {
        ToolEffect::Pure
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let begun = Arc::new(Notify::new());
            let (runs, begins) = (self.0.clone(), begun.clone());
            tokio::spawn(async move {
                let write = runs.database().write::<_, SqliteError>(move |_| {
                    begins.notify_one();
                    std::thread::sleep(LEASE * 3);
                    Ok(())
                });
                write.await.unwrap();
            });
            begun.notified().await;
            Ok(ToolOutput::text("done"))
        })
    }
}

/// Regression test. The renewal of the lease must not wait for a database write of the run's current step. The step is
/// not polled during the renewal, so this would be a deadlock.
#[tokio::test]
async fn renewal_does_not_wait_for_a_write_of_the_guarded_work() {
    let (_folder, path) = place();
    let memory = SqliteRuns::open(":memory:").await.unwrap();
    let file = SqliteRuns::open_with(&path, SqliteOptions::new().readers(1)).await.unwrap();
    for runs in [memory, file] {
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(Busy(runs.clone(), Echo::new("busy", ToolEffect::Pure))));
        let durable = runs
            .run("r")
            .options(DurableOptions::new().lease(LEASE))
            .open(silent(), Arc::new(tools))
            .await
            .unwrap();
        let batch = vec![invocation("busy", json!({}))];
        let ran = durable.execute_tools(batch, ActivityOptions::default());
        let ran = tokio::time::timeout(Duration::from_secs(20), ran).await;
        ran.expect("it hangs").remove(0).unwrap();
    }
}
