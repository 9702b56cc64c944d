//! What goes wrong between the loop and a durable engine.

use crate::{BoxError, ErrorRecord, ProviderError, ToolError};

/// What goes wrong between the loop and a durable engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DurableError {
    /// An activity failed for good, after the engine's retries.
    #[error("activity failed: {0}")]
    ActivityFailed(String),
    /// The execution was cancelled from outside.
    #[error("workflow cancelled")]
    Cancelled,
    /// No signal came in time.
    #[error("signal timeout")]
    SignalTimeout,
    /// The execution goes on as a new one.
    #[error("continue as new: {0}")]
    ContinueAsNew(String),
    /// The model's call failed: the provider's own error.
    #[error("provider error: {0}")]
    Provider(#[from] ProviderError),
    /// The tool's call failed: the tool's own error, [`ToolError::ModelRetry`] included.
    #[error("tool error: {0}")]
    Tool(#[from] ToolError),
    /// On replay the loop asked for something else than the journal holds: the code or its
    /// configuration changed since.
    #[error("replay differs from the journal: expected {expected}, got {got}")]
    NonDeterminism {
        /// What the journal holds.
        expected: String,
        /// What the loop asked for.
        got: String,
    },
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}

impl DurableError {
    /// Makes the same error once more. The text stands for a boxed error.
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

    /// Returns the variant's name, stable over versions.
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
