//! A tool with injected crashes.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use neuron_types::{
    AgentTool, CommandOutput, ToolCommand, ToolContext, ToolDefinition, ToolDyn, ToolEffect,
    ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::Value;

use super::trial::Execution;

/// Maximum number of waits inside one tool call at which a run can crash. Further waits of the same call never crash.
const MAX_BOUNDARIES: usize = 16;

/// A tool with injected simulated crashes, whose effects are observed. A crash can happen before a call, after it, and
/// each time that the call returns `Pending`.
pub(super) struct FaultyTool {
    pub(super) tool: Arc<dyn ToolDyn>,
    pub(super) execution: Execution,
}

impl FaultyTool {
    async fn run(
        &self,
        key: Option<String>,
        call: WasmBoxedFuture<'_, Result<ToolOutput, ToolError>>,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let name = self.tool.name();
        self.execution.boundary(&format!("the start of the tool `{name}`")).await;
        let running = self.execution.start_tool(name, self.tool.effect());
        let mut call = pin!(call);
        let mut waits = 0;
        let result = poll_fn(|context| match running.poll(|| call.as_mut().poll(context)) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => {
                waits += 1;
                if waits <= MAX_BOUNDARIES {
                    self.execution.pass(&format!("a wait inside the tool `{name}`"));
                }
                Poll::Pending
            }
        });
        let result = self.execution.alive(result).await;
        if self.tool.effect() == ToolEffect::Idempotent {
            self.execution.compare_result(name, &ctx.idempotency_key, &result);
        }
        if let (Some(key), true) = (key, result.as_ref().is_ok_and(|output| !output.is_error)) {
            self.execution.note_effect_key(name, key, &ctx.idempotency_key);
        }
        drop(running);
        self.execution.boundary(&format!("the end of the tool `{name}`")).await;
        result
    }
}

// Forward every method, because a default method would bypass an override of the inner tool.
impl ToolDyn for FaultyTool {
    fn name(&self) -> &str {
        self.tool.name()
    }

    fn definition(&self) -> ToolDefinition {
        self.tool.definition()
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        let key = self.tool.effect_key(&input);
        Box::pin(self.run(key, self.tool.call_dyn(input, ctx), ctx))
    }

    fn call_ref_dyn<'a>(
        &'a self,
        input: &'a Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        let key = self.tool.effect_key(input);
        Box::pin(self.run(key, self.tool.call_ref_dyn(input, ctx), ctx))
    }

    fn effect(&self) -> ToolEffect {
        self.tool.effect()
    }

    fn effect_key(&self, input: &Value) -> Option<String> {
        self.tool.effect_key(input)
    }

    fn agent(&self) -> Option<&dyn AgentTool> {
        self.tool.agent()
    }

    fn runs_alone(&self) -> bool {
        self.tool.runs_alone()
    }

    fn is_foreign(&self) -> bool {
        self.tool.is_foreign()
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        self.tool.check_input(input)
    }

    fn command_dyn(
        &self,
        input: &Value,
        ctx: &ToolContext,
    ) -> Option<Result<ToolCommand, ToolError>> {
        self.tool.command_dyn(input, ctx)
    }

    fn runs_program(&self) -> bool {
        self.tool.runs_program()
    }

    fn command_output(&self, output: CommandOutput) -> Result<ToolOutput, ToolError> {
        self.tool.command_output(output)
    }
}
