//! Tools that are agents, and how durable contexts run them.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::{
    BoxedProvider, Durability, DurableError, ToolCall, ToolContext, ToolDyn, ToolError, ToolOutput,
    WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// The future of a tool's result.
pub type ToolFuture<'a> = WasmBoxedFuture<'a, Result<ToolOutput, ToolError>>;

/// A set of tools by name, with middleware. Implemented by `neuron_tool::ToolRegistry`.
pub trait ToolSet: fmt::Debug + WasmCompatSend + WasmCompatSync {
    /// Returns a tool by its name.
    fn get(&self, name: &str) -> Option<Arc<dyn ToolDyn>>;

    /// Runs a call through the middleware. A panic of the tool becomes an error result for the model.
    ///
    /// With a durable context, an [agent](ToolDyn::agent) runs through [`AgentTool::call_in`] and outside of the set's
    /// sandbox, because the agent's tools have a sandbox of their own. Other tools ignore the context.
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

/// A tool that runs an agent. A durable context journals each step of the agent, so a crash repeats at most one model
/// call.
///
/// The context creates a journal for the call (a part of its own journal, or a workflow) and runs the call with
/// [`ToolSet::call`]. For each step, in any process, it looks up the provider and the tools by [`AgentPath`].
///
/// # Contract
///
/// The contract of [`DurableAgent`](crate::DurableAgent) applies. `call_in` runs again on replay and must have no
/// effects except through its durable context.
pub trait AgentTool: WasmCompatSend + WasmCompatSync {
    /// Returns the provider of the agent's model.
    fn provider(&self) -> BoxedProvider;

    /// Returns the tools that the agent may call, including other agents.
    fn tools(&self) -> Arc<dyn ToolSet>;

    /// Runs a call and sends the agent's steps to `durability`. `name` is the name under which the caller registered
    /// the tool.
    ///
    /// The agent's context has this name in its [`AgentPath`]. The agent does not wait for signals. If a call needs an
    /// approval, the run fails with [`ToolError::ApprovalRequired`].
    ///
    /// # Errors
    ///
    /// The errors of [`ToolDyn::call_dyn`]. Errors of `durability` may be mapped to any [`ToolError`], because the
    /// context keeps the original.
    fn call_in<'a>(
        &'a self,
        name: &'a str,
        input: Value,
        ctx: &'a ToolContext,
        durability: Durability<'a>,
    ) -> ToolFuture<'a>;

    /// Adds the agent's hooks and permissions to the context of a call of one of its tools. They exist only in the
    /// agent's process. `ctx` has the hooks and permissions of the parent run. The default adds none.
    fn hand_on(&self, ctx: &mut ToolContext) {
        let _ = ctx;
    }
}

/// The agents around a tool call, outermost first, without the agent of the run itself.
///
/// The path is stored in the [extensions](ToolContext::extensions) of the call's context. Each name is the name of a
/// tool of the preceding agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentPath(Vec<String>);

impl AgentPath {
    /// Returns the agent path of a context. It is empty for a tool of the run's own agent.
    #[must_use]
    pub fn of(ctx: &ToolContext) -> &[String] {
        ctx.extensions.get::<Self>().map_or(&[], |path| &path.0)
    }

    /// Appends the name of an agent to the path in its context.
    pub fn enter(ctx: &mut ToolContext, name: impl Into<String>) {
        let mut path = Self::of(ctx).to_vec();
        path.push(name.into());
        ctx.extensions.insert(Self(path));
    }

    /// Finds the innermost agent of a path, starting with the tools of the run's agent. Returns `None` for an empty
    /// path. `visit` is called for each agent on the way, outermost first.
    ///
    /// # Errors
    ///
    /// [`DurableError::NonDeterminism`] if a name is missing or is not an agent, which means that the code changed.
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
