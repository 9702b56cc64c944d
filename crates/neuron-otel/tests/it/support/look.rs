//! The tool of the tests.

use std::sync::Arc;

use neuron_types::{ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};
use tracing::Instrument;

/// What a call does, within a span and a log of its own.
#[derive(Clone, Debug)]
pub(crate) enum Behavior {
    /// Answers with its arguments.
    Echo,
    /// Answers when so many calls run at once.
    Together(Arc<Barrier>),
    /// Fails.
    Fail,
    /// Answers with a result that is an error.
    ErrorResult,
    /// Tells that it began, and never ends.
    Hang(Arc<Notify>),
}

/// The tool `look`.
pub(crate) struct Look(pub(crate) Behavior);

impl ToolDyn for Look {
    fn name(&self) -> &'static str {
        "look"
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "look".to_owned(),
            title: None,
            description: "Looks at a thing".to_owned(),
            input_schema: json!({"type": "object", "properties": {"at": {"type": "string"}}}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        let id = ctx.call_id.clone();
        let span = tracing::info_span!("inside", call = %id);
        let work = async move {
            tokio::task::yield_now().await;
            tracing::info!(call = %id, "looking");
            match &self.0 {
                Behavior::Echo => Ok(ToolOutput::text(input.to_string())),
                Behavior::Together(barrier) => {
                    barrier.wait().await;
                    tokio::task::yield_now().await;
                    tracing::info!(call = %id, "looked");
                    Ok(ToolOutput::text(input.to_string()))
                }
                Behavior::Fail => Err(ToolError::ExecutionFailed("no light".into())),
                Behavior::ErrorResult => {
                    Ok(ToolOutput { is_error: true, ..ToolOutput::text("no light") })
                }
                Behavior::Hang(began) => {
                    began.notify_one();
                    std::future::pending().await
                }
            }
        };
        Box::pin(work.instrument(span))
    }
}
