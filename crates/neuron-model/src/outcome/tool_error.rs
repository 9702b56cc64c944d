//! The error of a tool call, and its record.

use crate::{BoxError, ErrorRecord, PendingApproval};

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
    /// `ResumedApproval` is then in the extensions of the call's context.
    #[error("an agent inside the call needs an approval")]
    ApprovalRequired(Box<PendingApproval>),
    /// A hook ended the run of an agent inside the tool call. The parent run then ends with
    /// `LoopError::HookTerminated`, regardless of its policy for tool errors.
    #[error("terminated by hook: {0}")]
    HookTerminated(String),
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

impl ErrorRecord {
    /// Converts the record back into a tool error. An unknown kind becomes [`ToolError::ExecutionFailed`].
    #[must_use]
    pub fn into_tool_error(self) -> ToolError {
        match self.kind.as_str() {
            "NotFound" => ToolError::NotFound(self.detail),
            "InvalidInput" => ToolError::InvalidInput(self.detail),
            "PermissionDenied" => ToolError::PermissionDenied(self.detail),
            "Cancelled" => ToolError::Cancelled,
            "ModelRetry" => ToolError::ModelRetry(self.detail),
            "HookTerminated" => ToolError::HookTerminated(self.detail),
            "ApprovalRequired" => match serde_json::from_str(&self.detail) {
                Ok(pending) => ToolError::ApprovalRequired(pending),
                Err(error) => ToolError::ExecutionFailed(Box::new(error)),
            },
            // The type of the source is lost, but its uncertainty must survive. It decides whether the call may run
            // again.
            _ if self.is_uncertain => {
                ToolError::ExecutionFailed(Box::new(UncertainEffect(self.detail)))
            }
            _ => ToolError::ExecutionFailed(self.detail.into()),
        }
    }
}

impl From<&ToolError> for ErrorRecord {
    fn from(error: &ToolError) -> Self {
        match error {
            ToolError::ExecutionFailed(source) => {
                Self { is_uncertain: error.is_uncertain(), ..Self::new(error.kind(), source) }
            }
            ToolError::Cancelled => Self::new(error.kind(), ""),
            ToolError::ApprovalRequired(pending) => {
                // Serialising cannot fail: all map keys are strings.
                Self::new(error.kind(), serde_json::to_string(pending).unwrap_or_default())
            }
            ToolError::NotFound(detail)
            | ToolError::InvalidInput(detail)
            | ToolError::PermissionDenied(detail)
            | ToolError::ModelRetry(detail)
            | ToolError::HookTerminated(detail) => Self::new(error.kind(), detail),
        }
    }
}
