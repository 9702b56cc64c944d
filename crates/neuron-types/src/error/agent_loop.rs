//! The errors of an agent's run, of context strategies and of hooks.

use crate::{
    ApprovalError, BoxError, DurableError, PendingApproval, ProviderError, StopReason,
    StorageError, TokenUsage, ToolError, UnknownPrice,
};

/// The error of an agent's run.
///
/// The conversation of the agent stays valid. The agent's next run continues from that conversation.
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/loop_error.md")]
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
    /// The run reached its maximum number of turns, which is the value of the variant.
    #[error("max turns reached ({0})")]
    MaxTurns(usize),
    /// The run reached a usage limit. The text names the limit, and [`exceeded_limit`](Self::exceeded_limit) returns it as
    /// a value. If a [`Budget`](crate::Budget) refused a call, the count in the text includes reservations.
    #[error("usage limit exceeded: {0}")]
    UsageLimitExceeded(String),
    /// A [`Budget`](crate::Budget) has a limit in money, and no price for the model. The model was not called, unless a
    /// [router](crate::ProviderInfo::routes) chose it.
    #[error(transparent)]
    UnknownPrice(#[from] UnknownPrice),
    /// A typed run, whose result is a value of a Rust type, ended without a valid output. All retries were used, the
    /// model refused, or the response was cut off.
    #[error("invalid output (attempt {attempts}): {reason}")]
    InvalidOutput {
        /// The model's last output, either a text or the arguments of the tool with which the model returns the output.
        raw: String,
        /// The reason why the output is invalid, and the position of the fault in the output.
        reason: String,
        /// Number of outputs that the model produced in this run.
        attempts: usize,
        /// The stop reason of the last response. The stop reason distinguishes a refusal or a truncated response from
        /// an invalid output.
        stop_reason: StopReason,
    },
    /// A hook ended the run.
    #[error("terminated by hook: {0}")]
    HookTerminated(String),
    /// The run was cancelled through its cancellation token.
    #[error("cancelled")]
    Cancelled,
    /// The durable engine ended the run, for example because the engine cancelled the run or continues it as a new
    /// execution.
    #[error("durable execution: {0}")]
    Durable(#[source] DurableError),
    /// The run stopped because tool calls need an approval. Continue the run with the decisions on these calls.
    #[error("approval required for {}", listed(.0))]
    ApprovalRequired(Box<PendingApproval>),
    /// The run cannot continue with the given approval decisions. The decisions or the stored state are invalid, or no
    /// call is pending. If the run was waiting for an approval, it still waits.
    #[error("approval: {0}")]
    Approval(#[from] ApprovalError),
    /// The conversation could not be stored. It is still in memory. A run with
    /// [`Start::Continue`](crate::Start::Continue) writes again, and goes on or returns the answer that the run had. After a
    /// [conflict](StorageError::Conflict), load the session first.
    #[error("session storage: {0}")]
    Storage(#[from] StorageError),
}

/// Converts an error of a context strategy into [`LoopError::Context`], or into [`LoopError::Durable`] if a durable
/// engine caused it. Of a [`ContextError::AfterUsage`], the source is converted.
///
/// If a strategy calls a model through a [`DurableProvider`](crate::DurableProvider), an engine's error is the source
/// of a [`ProviderError::Other`].
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
            ContextError::AfterUsage { source, .. } => Self::from(*source),
            error => Self::Context(error),
        }
    }
}

impl LoopError {
    /// Returns `true` if a model call failed and used no tokens. See [`ProviderError::takes_no_tokens`].
    #[must_use]
    pub fn takes_no_tokens(&self) -> bool {
        matches!(self, Self::Provider(error) if error.takes_no_tokens())
    }

    /// Returns `true` if a retry of the same run may succeed.
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

    /// Returns the name of the variant. The name is stable across versions.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Provider(_) => "Provider",
            Self::Tool(_) => "Tool",
            Self::Context(_) => "Context",
            Self::MaxTurns(_) => "MaxTurns",
            Self::UsageLimitExceeded(_) => "UsageLimitExceeded",
            Self::UnknownPrice(_) => "UnknownPrice",
            Self::InvalidOutput { .. } => "InvalidOutput",
            Self::HookTerminated(_) => "HookTerminated",
            Self::Cancelled => "Cancelled",
            Self::Durable(_) => "Durable",
            Self::ApprovalRequired(_) => "ApprovalRequired",
            Self::Approval(_) => "Approval",
            Self::Storage(_) => "Storage",
        }
    }

    /// Returns the kind of the provider, tool or engine error inside this error, for example `RateLimit`. Returns
    /// [`kind`](Self::kind) if there is no such error inside.
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

    /// Returns `true` if the error's text may quote arguments, results or responses of the conversation.
    ///
    /// In this case, logs and exporters that exclude content must omit the error's text.
    #[must_use]
    pub fn may_quote_conversation(&self) -> bool {
        match self {
            Self::Tool(_) | Self::InvalidOutput { .. } => true,
            // These texts may quote a malformed response.
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

    /// Returns `true` if the run waits for an approval and has not failed. This includes an agent inside a tool call
    /// that waits for an approval.
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

/// Formats the names and ids of the pending calls as a list.
fn listed(pending: &PendingApproval) -> String {
    let calls = pending.calls.iter().map(|pending| &pending.call);
    calls.map(|call| format!("`{}` ({})", call.name, call.id)).collect::<Vec<_>>().join(", ")
}

/// Converts a provider's or tool's error into [`LoopError::Provider`] or [`LoopError::Tool`], as in a run without a
/// durable engine. Any other error becomes [`LoopError::Durable`].
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
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/context_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The strategy failed for a reason other than its model call or its settings.
    #[error("compaction failed: {0}")]
    CompactionFailed(String),
    /// The strategy's model call failed.
    #[error("provider error during summarization: {0}")]
    Provider(#[from] ProviderError),
    /// The strategy's model call returned no usable summary. The response was a refusal, cut off or empty.
    #[error("compaction failed: {reason}")]
    InvalidSummary {
        /// The reason why the response is not usable.
        reason: String,
        /// The tokens that the model call used. Boxed to keep all errors small.
        usage: Box<TokenUsage>,
    },
    /// A setting of the strategy is invalid. The text names the setting and its valid values.
    #[error("invalid setting: {0}")]
    InvalidSetting(String),
    /// The strategy failed after a model call that used tokens. A [`LoopError`] contains only the `source`.
    #[error("{source}")]
    AfterUsage {
        /// The reason of the failure.
        source: Box<ContextError>,
        /// The tokens that the model calls used.
        usage: Box<TokenUsage>,
    },
}

impl ContextError {
    /// Returns the tokens that the failed compaction used. Returns `None` if no model call returned a response.
    #[must_use]
    pub fn usage(&self) -> Option<&TokenUsage> {
        match self {
            Self::InvalidSummary { usage, .. } | Self::AfterUsage { usage, .. } => Some(usage),
            _ => None,
        }
    }

    /// Sets the tokens that the failed compaction used. Tokens that the error already has are replaced.
    #[must_use]
    pub fn with_usage(self, usage: TokenUsage) -> Self {
        let usage = Box::new(usage);
        match self {
            Self::InvalidSummary { reason, .. } => Self::InvalidSummary { reason, usage },
            Self::AfterUsage { source, .. } => Self::AfterUsage { source, usage },
            error if *usage == TokenUsage::default() => error,
            error => Self::AfterUsage { source: Box::new(error), usage },
        }
    }
}

/// The error of a hook. The agent loop logs the error, and the run continues.
///
/// The hooks of neuron never return this error. It is for your own implementations of
/// [`ObservabilityHook`](crate::ObservabilityHook).
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/hook_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// The hook could not handle the event. The text is the reason.
    #[error("hook failed: {0}")]
    Failed(String),
    /// Any other error.
    #[error(transparent)]
    Other(BoxError),
}
