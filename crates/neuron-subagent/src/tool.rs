//! An agent as a tool.

use std::fmt;
use std::sync::Arc;

use neuron_loop::{AgentResult, LoopError};
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentTool, ApprovalError, BoxedProvider, Durability, Provider, ResumedApproval, StopReason,
    SubAgentError, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolFuture,
    ToolOutput, ToolSet, WasmBoxedFuture, read_json,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::SubAgentManager;
use crate::child_context::child_context;
use crate::manager::Steps;

/// The sub-agents that can call each other, with their shared provider and tools.
pub(crate) struct Team<P> {
    pub(crate) agents: SubAgentManager,
    pub(crate) provider: Arc<P>,
    /// The tools that are not agents.
    pub(crate) tools: ToolRegistry,
}

impl<P: Provider + 'static> Team<P> {
    /// Returns a function that makes the tool of an agent by its name. The function returns `None` for an unknown name.
    fn agent_tool(self: &Arc<Self>) -> impl Fn(&str) -> Option<Arc<dyn ToolDyn>> {
        |name| {
            let tool =
                || Arc::new(SubAgentTool::new(self.clone(), name.to_owned())) as Arc<dyn ToolDyn>;
            self.agents.get(name).map(|_| tool())
        }
    }

    /// Returns the effect of running the agent `name` again from its start. This is the most restrictive effect among
    /// the configured effect and the effects of the agent's tools.
    ///
    /// `path` has the names of the agents that call this agent, outermost first. An agent that is already in `path`
    /// counts as pure, which ends the recursion.
    fn effect_of(&self, name: &str, path: &[&str]) -> ToolEffect {
        let Some(config) = self.agents.get(name).filter(|_| !path.contains(&name)) else {
            return ToolEffect::Pure;
        };
        let path = [path, &[name]].concat();
        let effect_of = |tool: &String| match self.tools.get(tool) {
            Some(tool) => tool.effect(),
            None => self.effect_of(tool, &path),
        };
        config.tools.iter().map(effect_of).fold(config.effect, ToolEffect::more_careful)
    }
}

/// An agent as a tool. [`SubAgentManager::into_tools`] creates it.
///
/// The result of the tool is the agent's answer. If the agent fails, reaches a limit, refuses or gives no answer, the
/// result is an error that the calling model can handle. Three cases end the parent run instead: a cancellation, a
/// pause for an approval, and a hook that ends the agent's run.
///
/// If the call is resumed after an approval, the agent's run continues where it paused.
pub struct SubAgentTool<P> {
    team: Arc<Team<P>>,
    name: String,
}

impl<P> SubAgentTool<P> {
    pub(crate) fn new(team: Arc<Team<P>>, name: String) -> Self {
        Self { team, name }
    }
}

#[derive(Deserialize)]
struct Arguments {
    prompt: String,
}

impl<P: Provider + 'static> SubAgentTool<P> {
    /// Parses the arguments of a call. Returns [`ToolError::InvalidInput`] if there is no `prompt`.
    fn arguments(&self, input: &Value) -> Result<Arguments, ToolError> {
        read_json(input.clone()).map_err(|mismatch| {
            ToolError::InvalidInput(format!("arguments of `{}`: {mismatch}", self.name))
        })
    }

    /// Runs the agent. `name` distinguishes the call in the idempotency keys, and usually is the agent's name.
    async fn call(
        &self,
        name: &str,
        input: Value,
        ctx: &ToolContext,
        steps: Steps<'_, Arc<P>>,
    ) -> Result<ToolOutput, ToolError> {
        let Arguments { prompt } = self.arguments(&input)?;
        if prompt.trim().is_empty() {
            return Err(ToolError::ModelRetry("the prompt is empty; describe the task".into()));
        }
        let Team { agents, tools, .. } = &*self.team;
        let child = child_context(ctx, name, None);
        let run = agents.run(&self.name, &prompt, tools, steps, &child, self.team.agent_tool());
        match Box::pin(run).await {
            Ok(result) => Ok(self.output(result)),
            Err(error) => self.failure(error, ctx),
        }
    }

    /// Converts the agent's response into the result for the calling model.
    fn output(&self, result: AgentResult) -> ToolOutput {
        let Self { name, .. } = self;
        let AgentResult { mut response, stop_reason, limit_reached, .. } = result;
        if stop_reason == StopReason::Refusal {
            return ToolOutput::error(format!("the agent `{name}` refused: {response}"));
        }
        if response.trim().is_empty() {
            return ToolOutput::error(format!("the agent `{name}` ended without an answer"));
        }
        let is_cut_off = matches!(
            stop_reason,
            StopReason::MaxTokens | StopReason::ContentFilter | StopReason::ContextWindowExceeded
        );
        if is_cut_off {
            response.push_str("\n\n[the answer was cut off]");
        }
        if let Some(limit) = limit_reached {
            response.push_str(&format!("\n\n[the agent had to come to an end: {limit}]"));
        }
        ToolOutput::text(response)
    }

    /// Converts the error of the agent's run into an error result for the calling model. Returns an error only if the
    /// parent run must end too.
    fn failure(&self, error: SubAgentError, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let resumed = ctx.extensions.get::<ResumedApproval>();
        if let Some(resumed) = resumed
            && let Some(LoopError::Approval(unfit @ ApprovalError::InvalidInput { .. })) =
                error.run_error()
        {
            // The parent run cannot check edited arguments of an inner call. No call has run yet, so the agent keeps
            // waiting.
            tracing::warn!(agent = self.name, error = %unfit, "a decision on a sub-agent's call is invalid; the agent keeps waiting");
            return Err(ToolError::ApprovalRequired(Box::new(resumed.pending.clone())));
        }
        let text = error.to_string();
        match ToolError::from(error) {
            passed_on @ (ToolError::ApprovalRequired(_)
            | ToolError::Cancelled
            | ToolError::HookTerminated(_)) => Err(passed_on),
            _ => Ok(ToolOutput::error(text)),
        }
    }
}

impl<P: Provider + 'static> ToolDyn for SubAgentTool<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn definition(&self) -> ToolDefinition {
        let described = self.team.agents.get(&self.name).map(|config| config.description.as_str());
        let description = match described.unwrap_or_default() {
            "" => format!("Gives a task to the agent `{}` and returns its answer.", self.name),
            text => text.to_owned(),
        };
        let about = "The task, with all that the agent needs to know: it sees nothing else of this \
                     conversation.";
        ToolDefinition {
            name: self.name.clone(),
            title: None,
            description,
            input_schema: json!({
                "type": "object",
                "properties": { "prompt": { "type": "string", "description": about } },
                "required": ["prompt"],
            }),
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
        Box::pin(self.call(&self.name, input, ctx, Steps::Here(&self.team.provider)))
    }

    /// Returns the configured effect, or the effect of one of the agent's tools if that is more restrictive.
    fn effect(&self) -> ToolEffect {
        self.team.effect_of(&self.name, &[])
    }

    fn agent(&self) -> Option<&dyn AgentTool> {
        Some(self)
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        self.arguments(input).map(drop)
    }
}

impl<P: Provider + 'static> AgentTool for SubAgentTool<P> {
    fn provider(&self) -> BoxedProvider {
        BoxedProvider::new(self.team.provider.clone())
    }

    fn tools(&self) -> Arc<dyn ToolSet> {
        let Team { agents, tools, .. } = &*self.team;
        Arc::new(agents.all_tools_of(&self.name, tools, self.team.agent_tool()))
    }

    fn call_in<'a>(
        &'a self,
        name: &'a str,
        input: Value,
        ctx: &'a ToolContext,
        durability: Durability<'a>,
    ) -> ToolFuture<'a> {
        Box::pin(self.call(name, input, ctx, Steps::In(durability)))
    }

    fn extend_context(&self, ctx: &mut ToolContext) {
        self.team.agents.extend_context(&self.name, ctx);
    }
}

impl<P> fmt::Debug for SubAgentTool<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubAgentTool").field("name", &self.name).finish_non_exhaustive()
    }
}
