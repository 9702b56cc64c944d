//! The conversion of a run's error into a tool's, and the error of a registration.

use crate::{LoopError, ToolError};

/// Converts the error of a nested agent's run into the error of the tool call that ran the agent.
///
/// A pending approval, a cancellation and a termination by a hook become the variants [`ToolError::ApprovalRequired`],
/// [`ToolError::Cancelled`] and [`ToolError::HookTerminated`]. Any other error becomes the source of
/// [`ToolError::ExecutionFailed`].
impl From<LoopError> for ToolError {
    fn from(error: LoopError) -> Self {
        match error {
            LoopError::ApprovalRequired(pending) => Self::ApprovalRequired(pending),
            LoopError::Cancelled => Self::Cancelled,
            LoopError::HookTerminated(reason) => Self::HookTerminated(reason),
            error => Self::ExecutionFailed(Box::new(error)),
        }
    }
}

/// The reason why a tool cannot be registered, or why an agent with the tool cannot be built.
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/registry_error.md")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Another tool with the same name is registered.
    #[error("a tool named `{name}` is registered already")]
    NameTaken {
        /// Name of both tools.
        name: String,
    },
    /// The tool's name is not valid for all vendors. A valid name has 1 to 64 ASCII letters, digits, `_` or `-`.
    #[error("a tool's name has 1 to 64 ASCII letters, digits, `_` or `-`, but one is `{name}`")]
    InvalidName {
        /// The invalid name.
        name: String,
    },
    /// Calls of the tool would always fail, for example because the sandbox refuses the tool.
    #[error("the tool `{name}` cannot run: {reason}")]
    CannotRun {
        /// Name of the tool.
        name: String,
        /// The missing precondition, or the reason of the sandbox's refusal.
        reason: String,
    },
    /// The registry to merge defers its tools. Its tools cannot be searched from another registry.
    #[error(
        "a registry that defers its tools cannot be merged: merge it first, and then call `defer_tools`"
    )]
    DefersTools,
}
