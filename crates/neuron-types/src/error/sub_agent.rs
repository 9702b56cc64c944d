//! Errors of sub-agents.

use crate::{LoopError, RegistryError, ToolError};

/// The error of registering, starting or running a sub-agent.
///
/// The path for programs with sub-agents is `neuron_subagent::SubAgentError`.
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/sub_agent_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubAgentError {
    /// No agent has the requested name.
    #[error("no agent is named `{name}`; the agents are: {}", listed(.known))]
    UnknownAgent {
        /// The requested name.
        name: String,
        /// The names of all registered agents.
        known: Vec<String>,
    },
    /// The agent's configuration names a tool that is neither a tool of the parent nor another agent.
    #[error("the agent `{agent}` is to have the tool `{tool}`, which is not among the tools given")]
    UnknownTool {
        /// Name of the agent.
        agent: String,
        /// Name of the tool.
        tool: String,
    },
    /// The agents are nested too deeply.
    #[error("the agent `{agent}` would run at depth {depth}, and may at {max_depth} at the most")]
    DepthExceeded {
        /// Name of the agent that was not started, because it would exceed the maximum depth.
        agent: String,
        /// The nesting depth of this agent, which is its number of outer agents. At least one.
        depth: usize,
        /// The maximum nesting depth of an agent.
        max_depth: usize,
    },
    /// The tool of an agent could not be registered, for example because another tool has the same name.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The agent's run failed.
    #[error("the agent `{agent}` failed: {source}")]
    Run {
        /// Name of the agent.
        agent: String,
        /// The error of the run.
        source: Box<LoopError>,
    },
}

impl SubAgentError {
    /// Returns the error of the agent's run. Returns `None` if the run was not started.
    #[must_use]
    pub fn run_error(&self) -> Option<&LoopError> {
        match self {
            Self::Run { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Formats names as a list. Returns `none` for an empty slice.
fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Converts the error of a sub-agent into the error of the tool call that ran the sub-agent.
///
/// A pending approval, a cancellation and a termination by a hook become the variants [`ToolError::ApprovalRequired`],
/// [`ToolError::Cancelled`] and [`ToolError::HookTerminated`]. Any other error becomes the source of
/// [`ToolError::ExecutionFailed`].
impl From<SubAgentError> for ToolError {
    fn from(error: SubAgentError) -> Self {
        match error {
            SubAgentError::Run { source, agent } => match *source {
                passed_on @ (LoopError::ApprovalRequired(_)
                | LoopError::Cancelled
                | LoopError::HookTerminated(_)) => passed_on.into(),
                source => {
                    let source = Box::new(source);
                    Self::ExecutionFailed(Box::new(SubAgentError::Run { agent, source }))
                }
            },
            error => Self::ExecutionFailed(Box::new(error)),
        }
    }
}
