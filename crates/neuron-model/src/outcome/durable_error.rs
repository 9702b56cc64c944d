//! Errors of a durable engine.

use crate::{BoxError, ErrorRecord, ProviderError, ToolError};

/// The error of a durable context.
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/durable_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DurableError {
    /// An activity failed after all retries of the engine.
    #[error("activity failed: {0}")]
    ActivityFailed(String),
    /// The engine's execution of the run was cancelled.
    #[error("workflow cancelled")]
    Cancelled,
    /// No signal arrived before the timeout.
    ///
    /// The engines of neuron never return this error. Their `wait_for_signal`
    /// returns `Ok(None)` after the timeout. The error is for your own implementations of
    /// `DurableContext`. If it arrives while a run waits for an approval, the run ends with
    /// `LoopError::ApprovalRequired`, as after `Ok(None)`.
    #[error("signal timeout")]
    SignalTimeout,
    /// The current execution ended, and the run continues as a new execution of the engine. The text describes the new
    /// execution in a form that depends on the engine.
    #[error("continue as new: {0}")]
    ContinueAsNew(String),
    /// The model call failed with the provider's error.
    #[error("provider error: {0}")]
    Provider(#[from] ProviderError),
    /// The tool call failed with the tool's error, which may be [`ToolError::ModelRetry`].
    #[error("tool error: {0}")]
    Tool(#[from] ToolError),
    /// On replay, the loop requested an operation, such as a tool call, that differs from the journal.
    ///
    /// The usual cause is a change of the agent's code or configuration since the journal was written.
    #[error("replay differs from the journal: expected {expected}, got {got}")]
    NonDeterminism {
        /// Description of the operation that the journal contains.
        expected: String,
        /// Description of the operation that the loop requested.
        got: String,
    },
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}

impl DurableError {
    /// Copies the error. A boxed source error is copied as its text, because it cannot be cloned.
    #[must_use]
    pub fn again(&self) -> Self {
        match self {
            Self::Cancelled => Self::Cancelled,
            Self::SignalTimeout => Self::SignalTimeout,
            Self::ContinueAsNew(text) => Self::ContinueAsNew(text.clone()),
            Self::NonDeterminism { expected, got } => {
                Self::NonDeterminism { expected: expected.clone(), got: got.clone() }
            }
            Self::Other(source) => Self::Other(source.to_string().into()),
            Self::Provider(error) => Self::Provider(ErrorRecord::from(error).into_provider_error()),
            Self::Tool(error) => Self::Tool(ErrorRecord::from(error).into_tool_error()),
            Self::ActivityFailed(text) => Self::ActivityFailed(text.clone()),
        }
    }

    /// Returns the name of the variant. The name is stable across versions.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ActivityFailed(_) => "ActivityFailed",
            Self::Cancelled => "Cancelled",
            Self::SignalTimeout => "SignalTimeout",
            Self::ContinueAsNew(_) => "ContinueAsNew",
            Self::Provider(_) => "Provider",
            Self::Tool(_) => "Tool",
            Self::NonDeterminism { .. } => "NonDeterminism",
            Self::Other(_) => "Other",
        }
    }
}
