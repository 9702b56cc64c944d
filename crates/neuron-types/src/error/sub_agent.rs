//! Errors of sub-agents.

use crate::{LoopError, RegistryError, ToolError};

/// The error of a sub-agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubAgentError {
    /// No agent has this name.
    #[error("no agent is named `{name}`; the agents are: {}", listed(.known))]
    UnknownAgent {
        /// The name.
        name: String,
        /// The names of all agents.
        known: Vec<String>,
    },
    /// The agent is configured with a tool that is not among the given tools.
    #[error("the agent `{agent}` is to have the tool `{tool}`, which is not among the tools given")]
    UnknownTool {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
    },
    /// The agents are nested too deeply.
    #[error("the agent `{agent}` would run at depth {depth}, and may at {max_depth} at the most")]
    DepthExceeded {
        /// The agent.
        agent: String,
        /// The depth of the agent, which is the number of agents around it, at least one.
        depth: usize,
        /// The maximum depth.
        max_depth: usize,
    },
    /// The agents cannot be registered next to the other tools.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The agent's run failed.
    #[error("the agent `{agent}` failed: {source}")]
    Run {
        /// The agent.
        agent: String,
        /// The error of the run.
        source: Box<LoopError>,
    },
}

impl SubAgentError {
    /// Returns the error of the agent's run, if the run started.
    #[must_use]
    pub fn run_error(&self) -> Option<&LoopError> {
        match self {
            Self::Run { source, .. } => Some(source),
            _ => None,
        }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Converts into the error of the tool call inside which the agent ran. See the conversion of [`LoopError`].
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
