//! Errors of tools and of their registration.

use crate::{BoxError, LoopError, PendingApproval};

/// The error of a tool call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// No tool has this name.
    #[error("tool not found: {0}")]
    NotFound(String),
    /// The arguments are invalid, and the model should not retry.
    #[error("invalid input: {0}")]
    InvalidInput(String),
    /// The tool ran and failed.
    #[error("execution failed: {0}")]
    ExecutionFailed(#[source] BoxError),
    /// A policy denies the call.
    #[error("permission denied: {0}")]
    PermissionDenied(String),
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The model should call again with other arguments. The text is the hint for it. This is not a failure.
    #[error("{0}")]
    ModelRetry(String),
    /// An agent inside the call waits for an approval. This is not a failure. A loop that pauses for approvals stops,
    /// and later calls the tool again with a [`ResumedApproval`](crate::ResumedApproval) in the context's extensions.
    #[error("an agent inside the call needs an approval")]
    ApprovalRequired(Box<PendingApproval>),
    /// A hook ended an agent inside the call. The parent run ends with [`LoopError::HookTerminated`] too, regardless of
    /// its policy for tool errors.
    #[error("terminated by hook: {0}")]
    HookTerminated(String),
}

/// The result of a nested agent as the error of its tool call. A pending approval, a cancellation and a termination by
/// a hook keep their meaning. Other errors are failures of the tool.
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

/// The source of a [`ToolError::ExecutionFailed`] whose call may have had its effect completely or in part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UncertainEffect(pub String);

impl ToolError {
    /// Returns `true` if the call may have had its effect although it failed. The source is then an [`UncertainEffect`]
    /// or an [I/O timeout](std::io::ErrorKind::TimedOut).
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        let Self::ExecutionFailed(source) = self else {
            return false;
        };
        let is_late = |error: &std::io::Error| error.kind() == std::io::ErrorKind::TimedOut;
        source.is::<UncertainEffect>() || source.downcast_ref().is_some_and(is_late)
    }

    /// Returns the name of the variant. It is stable across versions.
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

/// The error of registering a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Another tool has the same name.
    #[error("a tool named `{name}` is registered already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The name is not valid for all vendors.
    #[error("a tool's name has 1 to 64 ASCII letters, digits, `_` or `-`, but one is `{name}`")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// Calls of the tool could never run.
    #[error("the tool `{name}` cannot run: {reason}")]
    CannotRun {
        /// The name.
        name: String,
        /// The missing precondition, or the refusal.
        reason: String,
    },
}
