//! The error of a sandbox.

use crate::{BoxError, CommandOutput, SandboxLimit, ToolError};

/// The error of a [`Sandbox`](crate::Sandbox).
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/sandbox_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The tool itself returned an error. The caller of the tool receives this error unchanged.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The sandbox could not run the tool to its end. The text describes the failure. If the tool itself returns an
    /// error, the variant is [`Tool`](Self::Tool).
    ///
    /// The sandboxes of neuron never return this error. It is for your own implementations of
    /// [`Sandbox`](crate::Sandbox).
    #[error("execution failed in the sandbox: {0}")]
    ExecutionFailed(String),
    /// The tool exceeded a limit. The tool and all processes that it started were stopped.
    #[error("stopped: it needed more than {limit}")]
    LimitExceeded {
        /// The exceeded limit.
        limit: SandboxLimit,
        /// The output that the tool had written before it was stopped.
        output: Box<CommandOutput>,
    },
    /// The sandbox could not be set up or torn down, or refused a tool that it cannot confine.
    #[error("sandbox setup failed: {0}")]
    SetupFailed(String),
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}

/// Returns a tool's own error unchanged. Any other error becomes the source of [`ToolError::ExecutionFailed`].
impl From<SandboxError> for ToolError {
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Tool(error) => error,
            error => Self::ExecutionFailed(Box::new(error)),
        }
    }
}
