//! Tools that are agents, as durable contexts see them.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::{
    BoxedProvider, Durability, DurableError, ToolCall, ToolContext, ToolDyn, ToolError, ToolOutput,
    WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// The future of a tool's result.
pub type ToolAnswer<'a> = WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>;

/// Tools by their names, with the middleware around them. `neuron_tool::ToolRegistry` is one.
pub trait ToolSet: fmt::Debug + WasmCompatSend + WasmCompatSync {
    /// Returns a tool by its name.
    fn get(&self, name: &str) -> Option<Arc<dyn ToolDyn>>;

    /// Runs a call through the middleware. A panic is an error for the model.
    ///
    /// With a durable context, an [agent](ToolDyn::agent) runs by [`AgentTool::call_in`], outside of a sandbox of the set:
    /// its own tools run in the sandbox of theirs. Other tools ignore the context.
    ///
    /// # Errors
    ///
    /// [`ToolError::NotFound`] if there is no such tool, and errors of the middleware and the tool.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the tool is dropped.
    fn call<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        durability: Option<Durability<'a>>,
    ) -> ToolAnswer<'a>;
}

/// A tool that is an agent. A durable context journals the steps of the agent one by one, and so a crash costs one call of
/// its model.
///
/// The context makes a journal for the call (a part of its own journal, or a workflow) and runs the call with
/// [`ToolSet::call`]. It looks up the provider and the tools for each step by [`AgentPath`], in any process.
///
/// # Contract
///
/// As for a [`DurableAgent`](crate::DurableAgent): `call_in` runs again on replay, and has no effects except through its
/// durable context.
pub trait AgentTool: WasmCompatSend + WasmCompatSync {
    /// Returns the provider of the agent's model.
    fn provider(&self) -> BoxedProvider;

    /// Returns the tools that the agent may call. Other agents are among them.
    fn tools(&self) -> Arc<dyn ToolSet>;

    /// Runs a call. The agent's steps go to `durability`. `name` is the name of the tool in the registry of its caller.
    ///
    /// The agent's context has this name in its [`AgentPath`]. The agent waits for no signal. If it needs an approval, the
    /// call fails with [`ToolError::ApprovalRequired`].
    ///
    /// # Errors
    ///
    /// As [`ToolDyn::call_dyn`]. Errors of `durability` may be any [`ToolError`]: the context knows them.
    fn call_in<'a>(
        &'a self,
        name: &'a str,
        input: Value,
        ctx: &'a ToolContext,
        durability: Durability<'a>,
    ) -> ToolAnswer<'a>;

    /// Adds to the context of a call of the agent's tools what the agent hands on in its own process: hooks and
    /// permissions. `ctx` has what the run around the agent hands on. Provided: adds nothing.
    fn hand_on(&self, ctx: &mut ToolContext) {
        let _ = ctx;
    }
}

/// The agents around a tool call, outermost first, without the agent of the run itself. It is in the
/// [extensions](ToolContext::extensions) of the call's context.
///
/// Each name is that of a tool of the agent before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentPath(Vec<String>);

impl AgentPath {
    /// Returns the path of a call with this context. It is empty for a tool of the run's own agent.
    #[must_use]
    pub fn of(ctx: &ToolContext) -> &[String] {
        ctx.extensions.get::<Self>().map_or(&[], |path| &path.0)
    }

    /// Adds the name of an agent to the context in which it runs.
    pub fn enter(ctx: &mut ToolContext, name: impl Into<String>) {
        let mut path = Self::of(ctx).to_vec();
        path.push(name.into());
        ctx.extensions.insert(Self(path));
    }

    /// Finds the innermost agent of a path, among the tools of the run's agent. `None` for an empty path. `visit` sees each
    /// agent on the way, outermost first.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] with the first name that is missing or not an agent: the code has changed.
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
