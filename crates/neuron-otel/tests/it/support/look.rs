//! The tools `look` and `ask` of the agents in tests with a model server over HTTP.

use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_types::{
    BoxedProvider, ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};
use tracing::Instrument;

use super::agents::{Chat, bare};

/// The behaviour of a tool call. The tool creates a span and a log event in each call.
#[derive(Clone, Debug)]
pub(crate) enum Behavior {
    /// Returns its arguments.
    Echo,
    /// Returns after all calls that share the barrier have begun.
    Together(Arc<Barrier>),
    /// Returns an error.
    Fail,
    /// Returns a result that is marked as failed.
    ErrorResult,
    /// Notifies the test that the call has begun, and then never returns.
    Hang(Arc<Notify>),
}

/// The tool `look`, with a given behaviour.
pub(crate) struct Look(pub(crate) Behavior);

impl ToolDyn for Look {
    fn name(&self) -> &'static str {
        "look"
    }

    fn definition(&self) -> ToolDefinition {
        definition("look", "Looks at a thing", "at")
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

/// The tool `ask`, which runs another agent. This agent is named `helper`, has the tool `look`, and inherits the hooks
/// of the outer agent.
pub(crate) struct Ask(pub(crate) BoxedProvider);

impl ToolDyn for Ask {
    fn name(&self) -> &'static str {
        "ask"
    }

    fn definition(&self) -> ToolDefinition {
        definition("ask", "Asks a helper", "prompt")
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let mut tools = ToolRegistry::new();
            tools.register_dyn(Arc::new(Look(Behavior::Echo)));
            let builder = bare(self.0.clone()).name("helper").tools(tools).inherit_hooks(ctx);
            let mut helper = Chat::new(builder);
            let prompt = input["prompt"].as_str().unwrap_or_default();
            let result = helper.run(prompt, ctx).await;
            let answer = result.map_err(|error| ToolError::ExecutionFailed(error.into()))?;
            Ok(ToolOutput::text(answer.response))
        })
    }
}

fn definition(name: &str, description: &str, argument: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: description.to_owned(),
        input_schema: json!({"type": "object", "properties": {argument: {"type": "string"}}}),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}
