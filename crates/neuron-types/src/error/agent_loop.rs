//! What ends a run early, and the errors of the strategy and the hooks that take part in it.

use crate::{
    ApprovalError, BoxError, DurableError, PendingApproval, ProviderError, StopReason,
    StorageError, TokenUsage, ToolError,
};

/// What ends a run of the agent loop without an answer.
///
/// After any of these the agent's history is valid and its next run continues it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopError {
    /// A call of the model failed.
    #[error("provider error: {0}")]
    Provider(#[from] ProviderError),
    /// A tool failed, other than by [`ToolError::ModelRetry`].
    #[error("tool error: {0}")]
    Tool(#[from] ToolError),
    /// The history could not be compacted.
    #[error("context error: {0}")]
    Context(#[source] ContextError),
    /// The run reached its limit on turns.
    #[error("max turns reached ({0})")]
    MaxTurns(usize),
    /// The run reached one of its usage limits; the text says which.
    #[error("usage limit exceeded: {0}")]
    UsageLimitExceeded(String),
    /// A typed run ended without an output that fits: the model was told so too often, refused, or
    /// was cut off.
    #[error("invalid output (attempt {attempts}): {reason}")]
    InvalidOutput {
        /// What the model gave last: a text, or the arguments of the output tool.
        raw: String,
        /// What was wrong with it, and where.
        reason: String,
        /// How often the model gave an output in this run.
        attempts: usize,
        /// Why the model stopped: tells a refusal or an answer that was cut off from one that does
        /// not fit.
        stop_reason: StopReason,
    },
    /// A hook ended the run.
    #[error("terminated by hook: {0}")]
    HookTerminated(String),
    /// The cancellation token was triggered.
    #[error("cancelled")]
    Cancelled,
    /// The durable engine ended the run: it was cancelled there, or continues as a new execution.
    #[error("durable execution: {0}")]
    Durable(#[source] DurableError),
    /// The run stopped because calls need an approval; it goes on with the decisions on them.
    #[error("approval required for {}", listed(.0))]
    ApprovalRequired(Box<PendingApproval>),
    /// A run that waits for an approval cannot go on like this; it still waits.
    #[error("approval: {0}")]
    Approval(#[from] ApprovalError),
    /// The conversation could not be stored.
    #[error("session storage: {0}")]
    Storage(#[from] StorageError),
}

/// A failure of the durable engine is that, also when a strategy met it in its call of a model.
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
    /// Returns `true` if the call of the model took no tokens, because the provider refused it or it was not sent.
    #[must_use]
    pub fn takes_no_tokens(&self) -> bool {
        matches!(self, Self::Provider(error) if error.takes_no_tokens())
    }

    /// Whether the same run may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Provider(error) | Self::Context(ContextError::Provider(error)) => {
                error.is_retryable()
            }
            _ => false,
        }
    }

    /// Returns the variant's name, stable over versions.
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

    /// Returns the kind of the provider's, the tool's or the engine's error inside, such as
    /// `RateLimit`; the error's own [`kind`](Self::kind) where there is none.
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

    /// Whether the error's text may quote the conversation: arguments, results or an answer. What logs
    /// or exports errors without content leaves such a text out.
    #[must_use]
    pub fn may_quote_conversation(&self) -> bool {
        match self {
            Self::Tool(_) | Self::InvalidOutput { .. } => true,
            // An answer that cannot be read is shown in its error.
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

    /// Whether it is no failure: the run, or an agent inside one of its calls, waits for an approval.
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

/// A failure of the model or of a tool is the same failure with and without an engine.
impl From<DurableError> for LoopError {
    fn from(error: DurableError) -> Self {
        match error {
            DurableError::Provider(error) => Self::Provider(error),
            DurableError::Tool(error) => Self::Tool(error),
            other => Self::Durable(other),
        }
    }
}

/// What keeps a [`ContextStrategy`](crate::ContextStrategy) from compacting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The strategy itself failed.
    #[error("compaction failed: {0}")]
    CompactionFailed(String),
    /// The strategy asked a model, and that failed.
    #[error("provider error during summarization: {0}")]
    Provider(#[from] ProviderError),
    /// The strategy asked a model, and the answer is no summary: refused, cut off or empty.
    #[error("compaction failed: {reason}")]
    InvalidSummary {
        /// What is wrong with the answer.
        reason: String,
        /// The tokens that it took.
        usage: TokenUsage,
    },
    /// A setting that makes no sense; the text names it and what it must be.
    #[error("invalid setting: {0}")]
    InvalidSetting(String),
}

impl ContextError {
    /// Returns the tokens that the failed compaction took, as far as they are known.
    #[must_use]
    pub fn usage(&self) -> Option<&TokenUsage> {
        match self {
            Self::InvalidSummary { usage, .. } => Some(usage),
            _ => None,
        }
    }
}

/// What went wrong in a hook. The loop logs it and goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// The hook failed.
    #[error("hook failed: {0}")]
    Failed(String),
    /// Anything else.
    #[error(transparent)]
    Other(BoxError),
}
