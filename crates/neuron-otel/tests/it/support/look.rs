//! The tools of runs over HTTP.

use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_types::{
    BoxedProvider, ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};
use tracing::Instrument;

use super::agents::{Chat, bare};

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

/// The tool `ask`: another agent, `helper`, which has the hooks of the one around it and may `look`.
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
