//! Tools that run an agent, and the lookup of an agent that runs inside the tool calls of other agents.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::{
    BoxedProvider, Durability, DurableError, ToolCall, ToolContext, ToolDyn, ToolError, ToolOutput,
    WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// The boxed future of a tool's result.
pub type ToolFuture<'a> = WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>;

/// A set of tools that are found by name and called through middleware. Implemented by `neuron_tool::ToolRegistry`.
pub trait ToolSet: fmt::Debug + WasmCompatSend + WasmCompatSync {
    /// Returns a tool by its name. Returns `None` if no tool has this name.
    fn get(&self, name: &str) -> Option<Arc<dyn ToolDyn>>;

    /// Runs a call through the middleware. A panic of the tool becomes an error result for the model.
    ///
    /// If `durability` is set and the tool is an [agent](ToolDyn::agent), the agent runs through
    /// [`AgentTool::call_in`]. It runs outside of this tool set's sandbox, because its tools have their own sandbox.
    /// Other tools ignore `durability`.
    ///
    /// # Errors
    ///
    /// [`ToolError::NotFound`] if no tool has this name, and the errors of the middleware and the tool.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the running tool.
    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        durability: Option<Durability<'a>>,
    ) -> ToolFuture<'a>;
}

/// A tool that runs an agent.
///
/// A durable context journals each model and tool call of the agent, so that a crash repeats at most one model call.
/// The journal is either a part of the parent run's journal or a new workflow. The durable context starts the agent
/// with [`ToolSet::call`].
///
/// A model or tool call of the agent may run in another process. There, the engine finds the agent's provider and
/// tools by [`AgentPath`].
///
/// # Contract
///
/// The contract of [`DurableAgent`](crate::DurableAgent) applies to [`call_in`](Self::call_in). The method runs again
/// on replay and must have no effects except through its durable context.
pub trait AgentTool: WasmCompatSend + WasmCompatSync {
    /// Returns the provider of the agent's model.
    fn provider(&self) -> BoxedProvider;

    /// Returns the tools that the agent may call, including other agents.
    fn tools(&self) -> Arc<dyn ToolSet>;

    /// Runs a call of the tool. The agent makes its model and tool calls through `durability`.
    ///
    /// `name` is the name under which the caller registered the tool. It is appended to the [`AgentPath`] in the
    /// agent's context.
    ///
    /// The agent does not wait for signals. If one of its tool calls needs an approval, this call ends with
    /// [`ToolError::ApprovalRequired`].
    ///
    /// # Errors
    ///
    /// The errors of [`ToolDyn::call_dyn`]. An error of `durability` may be mapped to any [`ToolError`], because the
    /// durable context keeps the original error.
    fn call_in<'a>(
        &'a self,
        name: &'a str,
        input: Value,
        ctx: &'a ToolContext,
        durability: Durability<'a>,
    ) -> ToolFuture<'a>;

    /// Adds the agent's hooks, permission policy and budget to `ctx`. The default adds nothing.
    ///
    /// `ctx` is the context of a tool call that the agent makes. It already has the hooks and the policy of the parent
    /// run.
    ///
    /// An engine that runs tools in another process calls this method there. See
    /// [`DurableAgent::extend_context`](crate::DurableAgent::extend_context).
    fn extend_context(&self, ctx: &mut ToolContext) {
        let _ = ctx;
    }
}

/// The names of the nested agents around a tool call, outermost first.
///
/// Each nested agent has the name of the tool that runs it. The agent of the outermost run is not in the path. The path
/// is stored in the [extensions](ToolContext::extensions) of the call's context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentPath(Vec<String>);

impl AgentPath {
    /// Returns the agent path of a context. The path is empty for a tool call of the outermost run's agent.
    #[must_use]
    pub fn of(ctx: &ToolContext) -> &[String] {
        ctx.extensions.get::<Self>().map_or(&[], |path| &path.0)
    }

    /// Appends the name of an agent to the path in `ctx`, the context with which the agent runs.
    pub fn enter(ctx: &mut ToolContext, name: impl Into<String>) {
        let mut path = Self::of(ctx).to_vec();
        path.push(name.into());
        ctx.extensions.insert(Self(path));
    }

    /// Finds the tool that runs the last, innermost agent of a path. Returns `None` for an empty path.
    ///
    /// `tools` are the tools of the outermost run's agent. `visit` is called with each agent of the path, outermost
    /// first.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if a name in the path belongs to no tool, or to a tool that is not an agent.
    /// This happens if the agents were changed after the path was stored.
    pub fn find(
        path: &[String],
        mut tools: Arc<dyn ToolSet>,
        mut visit: impl FnMut(&dyn AgentTool),
    ) -> Result<Option<Arc<dyn ToolDyn>>, DurableError> {
        let mut found = None;
        for name in path {
            let missing = || DurableError::NonDeterminism {
                expected: format!("the tool `{name}`, an agent"),
                got: "no such agent among the tools".into(),
            };
            let tool = tools.get(name).ok_or_else(missing)?;
            let agent = tool.agent().ok_or_else(missing)?;
            visit(agent);
            tools = agent.tools();
            found = Some(tool);
        }
        Ok(found)
    }
}
