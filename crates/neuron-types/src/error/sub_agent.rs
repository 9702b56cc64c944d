//! What keeps a sub-agent from giving an answer.

use crate::{LoopError, RegistryError, ToolError};

/// What keeps a sub-agent from giving an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubAgentError {
    /// No agent has this name.
    #[error("no agent is named `{name}`; the agents are: {}", listed(.known))]
    UnknownAgent {
        /// The name.
        name: String,
        /// The agents that there are.
        known: Vec<String>,
    },
    /// The agent is to have a tool that is not among those that there are for it.
    #[error("the agent `{agent}` is to have the tool `{tool}`, which is not among the tools given")]
    UnknownTool {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
    },
    /// There are too many agents around this one already.
    #[error("the agent `{agent}` would run at depth {depth}, and may at {max_depth} at the most")]
    DepthExceeded {
        /// The agent.
        agent: String,
        /// How many agents would be around it, at least one.
        depth: usize,
        /// How many may be.
        max_depth: usize,
    },
    /// The agents cannot be tools beside those that there are.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The agent's run ended without an answer.
    #[error("the agent `{agent}` failed: {source}")]
    Run {
        /// The agent.
        agent: String,
        /// What ended its run.
        source: Box<LoopError>,
    },
}

impl SubAgentError {
    /// Returns what ended the agent's run, if it began.
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

/// As the error of the tool call inside which the agent ran: see the conversion of [`LoopError`].
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
