//! The errors of an agent's run, of context strategies and of hooks.

use crate::{
    ApprovalError, BoxError, DurableError, PendingApproval, ProviderError, StopReason,
    StorageError, TokenUsage, ToolError,
};

/// The error of an agent's run.
///
/// The agent's history stays valid, and its next run continues from it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopError {
    /// A model call failed.
    #[error("provider error: {0}")]
    Provider(#[from] ProviderError),
    /// A tool failed with an error other than [`ToolError::ModelRetry`].
    #[error("tool error: {0}")]
    Tool(#[from] ToolError),
    /// The compaction of the history failed.
    #[error("context error: {0}")]
    Context(#[source] ContextError),
    /// The run reached its limit on turns.
    #[error("max turns reached ({0})")]
    MaxTurns(usize),
    /// The run reached the usage limit that the text names.
    #[error("usage limit exceeded: {0}")]
    UsageLimitExceeded(String),
    /// A typed run ended without a valid output. The model exceeded the retries, refused, or was cut off.
    #[error("invalid output (attempt {attempts}): {reason}")]
    InvalidOutput {
        /// The model's last output, either a text or the arguments of the output tool.
        raw: String,
        /// The reason why the output is invalid, and the place in it.
        reason: String,
        /// Number of outputs that the model gave in this run.
        attempts: usize,
        /// The stop reason of the last response. It distinguishes a refusal or a truncated response from an invalid
        /// one.
        stop_reason: StopReason,
    },
    /// A hook ended the run.
    #[error("terminated by hook: {0}")]
    HookTerminated(String),
    /// The cancellation token was triggered.
    #[error("cancelled")]
    Cancelled,
    /// The durable engine ended the run. The run was cancelled there, or continues as a new execution.
    #[error("durable execution: {0}")]
    Durable(#[source] DurableError),
    /// The run stopped because calls need an approval. It continues with the decisions on them.
    #[error("approval required for {}", listed(.0))]
    ApprovalRequired(Box<PendingApproval>),
    /// A run that waits for an approval cannot continue with this input. It still waits.
    #[error("approval: {0}")]
    Approval(#[from] ApprovalError),
    /// The conversation could not be stored.
    #[error("session storage: {0}")]
    Storage(#[from] StorageError),
}

/// An error of the durable engine stays [`LoopError::Durable`], even if a strategy received it from its model call.
impl From<ContextError> for LoopError {
    fn from(error: ContextError) -> Self {
        match error {
            ContextError::Provider(ProviderError::Other(error)) => {
                match error.downcast::<DurableError>() {
                    Ok(error) => Self::Durable(*error),
                    Err(error) => {
                        Self::Context(ContextError::Provider(ProviderError::Other(error)))
                    }
                }
            }
            error => Self::Context(error),
        }
    }
}

impl LoopError {
    /// Returns `true` if the model call used no tokens, because the provider refused it or it was not sent.
    #[must_use]
    pub fn takes_no_tokens(&self) -> bool {
        matches!(self, Self::Provider(error) if error.takes_no_tokens())
    }

    /// Returns `true` if the same run may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            // A compaction may fail with a transient error of its model.
            Self::Provider(error) | Self::Context(ContextError::Provider(error)) => {
                error.is_retryable()
            }
            _ => false,
        }
    }

    /// Returns the name of the variant. It is stable across versions.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Provider(_) => "Provider",
            Self::Tool(_) => "Tool",
            Self::Context(_) => "Context",
            Self::MaxTurns(_) => "MaxTurns",
            Self::UsageLimitExceeded(_) => "UsageLimitExceeded",
            Self::InvalidOutput { .. } => "InvalidOutput",
            Self::HookTerminated(_) => "HookTerminated",
            Self::Cancelled => "Cancelled",
            Self::Durable(_) => "Durable",
            Self::ApprovalRequired(_) => "ApprovalRequired",
            Self::Approval(_) => "Approval",
            Self::Storage(_) => "Storage",
        }
    }

    /// Returns the kind of the inner error of the provider, tool or engine, for example `RateLimit`. Without an inner
    /// error, returns [`kind`](Self::kind).
    #[must_use]
    pub fn innermost_kind(&self) -> &'static str {
        match self {
            Self::Provider(error)
            | Self::Context(ContextError::Provider(error))
            | Self::Durable(DurableError::Provider(error)) => error.kind(),
            Self::Tool(error) | Self::Durable(DurableError::Tool(error)) => error.kind(),
            Self::Durable(error) => error.kind(),
            error => error.kind(),
        }
    }

    /// Returns `true` if the error's text may quote arguments, results or responses of the conversation. Logs and
    /// exporters that exclude content must omit such a text.
    #[must_use]
    pub fn may_quote_conversation(&self) -> bool {
        match self {
            Self::Tool(_) | Self::InvalidOutput { .. } => true,
            // The text of a malformed response quotes it.
            Self::Provider(error)
            | Self::Context(ContextError::Provider(error))
            | Self::Durable(DurableError::Provider(error)) => {
                matches!(error, ProviderError::Other(_) | ProviderError::StreamError(_))
            }
            Self::Durable(error) => matches!(
                error,
                DurableError::Tool(_) | DurableError::ActivityFailed(_) | DurableError::Other(_)
            ),
            _ => false,
        }
    }

    /// Returns `true` if the run, or an agent inside one of its calls, waits for an approval. That is no failure.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(
            self,
            Self::ApprovalRequired(_)
                | Self::Tool(ToolError::ApprovalRequired(_))
                | Self::Durable(DurableError::Tool(ToolError::ApprovalRequired(_)))
        )
    }
}

fn listed(pending: &PendingApproval) -> String {
    let calls = pending.calls.iter().map(|pending| &pending.call);
    calls.map(|call| format!("`{}` ({})", call.name, call.id)).collect::<Vec<_>>().join(", ")
}

/// A failure of the model or of a tool has the same variant with and without an engine.
impl From<DurableError> for LoopError {
    fn from(error: DurableError) -> Self {
        match error {
            DurableError::Provider(error) => Self::Provider(error),
            DurableError::Tool(error) => Self::Tool(error),
            other => Self::Durable(other),
        }
    }
}

/// The error of a compaction by a [`ContextStrategy`](crate::ContextStrategy).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The strategy itself failed.
    #[error("compaction failed: {0}")]
    CompactionFailed(String),
    /// The strategy's model call failed.
    #[error("provider error during summarization: {0}")]
    Provider(#[from] ProviderError),
    /// The strategy's model call gave no usable summary. The response was a refusal, cut off or empty.
    #[error("compaction failed: {reason}")]
    InvalidSummary {
        /// The reason why the response is not usable.
        reason: String,
        /// The tokens of the call.
        usage: TokenUsage,
    },
    /// A setting is invalid. The text names it and its valid values.
    #[error("invalid setting: {0}")]
    InvalidSetting(String),
}

impl ContextError {
    /// Returns the tokens that the failed compaction used, if known.
    #[must_use]
    pub fn usage(&self) -> Option<&TokenUsage> {
        match self {
            Self::InvalidSummary { usage, .. } => Some(usage),
            _ => None,
        }
    }
}

/// The error of a hook. The loop logs it and continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// The hook failed.
    #[error("hook failed: {0}")]
    Failed(String),
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}
