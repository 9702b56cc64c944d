//! What keeps a tool from giving a result.

use crate::{BoxError, LoopError, PendingApproval};

/// What keeps a tool from giving a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// No tool has this name.
    #[error("tool not found: {0}")]
    NotFound(String),
    /// The arguments are not what the tool takes, and the model should not try again.
    #[error("invalid input: {0}")]
    InvalidInput(String),
    /// The tool ran and failed.
    #[error("execution failed: {0}")]
    ExecutionFailed(#[source] BoxError),
    /// A policy forbids the call.
    #[error("permission denied: {0}")]
    PermissionDenied(String),
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// Not a failure: the model should call again with other arguments. The text tells it how.
    #[error("{0}")]
    ModelRetry(String),
    /// Not a failure: an agent that runs inside the call waits for an approval. A loop that pauses
    /// for approvals stops with it, and calls the tool again with a
    /// [`ResumedApproval`](crate::ResumedApproval) in the context's extensions.
    #[error("an agent inside the call needs an approval")]
    ApprovalRequired(Box<PendingApproval>),
    /// A hook ended an agent that runs inside the call. It ends the run around it too, with
    /// [`LoopError::HookTerminated`], whatever failures of tools mean there.
    #[error("terminated by hook: {0}")]
    HookTerminated(String),
}

/// What ends an agent that runs inside a tool call, as that tool's error: what waits for an approval
/// still does, what is cancelled is cancelled, and what a hook ended is ended.
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

/// The source of a [`ToolError::ExecutionFailed`] whose call may have had its effect, wholly or in part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UncertainEffect(pub String);

impl ToolError {
    /// Returns `true` if the call may have had its effect all the same: its source is an [`UncertainEffect`], or a
    /// [time limit](std::io::ErrorKind::TimedOut) that was over.
    #[must_use]
    pub fn is_uncertain(&self) -> bool {
        let Self::ExecutionFailed(source) = self else {
            return false;
        };
        let is_late = |error: &std::io::Error| error.kind() == std::io::ErrorKind::TimedOut;
        source.is::<UncertainEffect>() || source.downcast_ref().is_some_and(is_late)
    }

    /// Returns the variant's name, stable over versions.
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

/// What keeps a registry from taking a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Another tool has the name already.
    #[error("a tool named `{name}` is registered already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The name is not one that every vendor takes.
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
        /// Text that says what is missing or refuses it.
        reason: String,
    },
}
