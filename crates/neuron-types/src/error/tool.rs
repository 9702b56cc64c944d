//! Errors of tools and of their registration.

use crate::{BoxError, LoopError, PendingApproval};

/// The error of a tool call.
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/tool_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// No tool has this name.
    #[error("tool not found: {0}")]
    NotFound(String),
    /// The arguments are invalid, and the call counts as failed. To let the model retry without a failed call, return
    /// [`ModelRetry`](Self::ModelRetry) instead.
    #[error("invalid input: {0}")]
    InvalidInput(String),
    /// The tool ran and failed.
    #[error("execution failed: {0}")]
    ExecutionFailed(#[source] BoxError),
    /// A permission policy denied the call.
    #[error("permission denied: {0}")]
    PermissionDenied(String),
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The model should call the tool again with other arguments. The text tells the model what to change. The loop
    /// does not treat this error as a failure of the tool.
    #[error("{0}")]
    ModelRetry(String),
    /// An agent inside the tool call waits for an approval. The loop does not treat this error as a failure of the
    /// tool.
    ///
    /// The parent run waits for the approval too. After the decision, the loop calls the tool again. A
    /// [`ResumedApproval`](crate::ResumedApproval) is then in the extensions of the call's context.
    #[error("an agent inside the call needs an approval")]
    ApprovalRequired(Box<PendingApproval>),
    /// A hook ended the run of an agent inside the tool call. The parent run then ends with
    /// [`LoopError::HookTerminated`], regardless of its policy for tool errors.
    #[error("terminated by hook: {0}")]
    HookTerminated(String),
}

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

/// The source of a [`ToolError::ExecutionFailed`] if the failed call may have had its side effect, completely or in
/// part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UncertainEffect(pub String);

impl ToolError {
    /// Returns `true` if the failed call may have had its side effect nevertheless.
    ///
    /// This is the case for [`ExecutionFailed`](Self::ExecutionFailed) with an [`UncertainEffect`] or an
    /// [I/O timeout](std::io::ErrorKind::TimedOut) as its source.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        let Self::ExecutionFailed(source) = self else {
            return false;
        };
        let is_late = |error: &std::io::Error| error.kind() == std::io::ErrorKind::TimedOut;
        source.is::<UncertainEffect>() || source.downcast_ref().is_some_and(is_late)
    }

    /// Returns the name of the variant. The name is stable across versions.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "NotFound",
            Self::InvalidInput(_) => "InvalidInput",
            Self::ExecutionFailed(_) => "ExecutionFailed",
            Self::PermissionDenied(_) => "PermissionDenied",
            Self::Cancelled => "Cancelled",
            Self::ModelRetry(_) => "ModelRetry",
            Self::ApprovalRequired(_) => "ApprovalRequired",
            Self::HookTerminated(_) => "HookTerminated",
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
