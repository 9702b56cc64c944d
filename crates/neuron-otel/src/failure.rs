//! What is told of an error.

use std::error::Error;

use neuron_types::{ContextError, DurableError, EmbeddingError, LoopError, ProviderError};

/// How an operation ended that has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `error.type`.
    pub(crate) kind: &'static str,
    /// The description of the span's status, where it may be told.
    pub(crate) description: Option<String>,
}

impl Failure {
    /// What an operation's error is told as; `None` if it is none: a person is waited for, or the run goes on
    /// elsewhere.
    pub(crate) fn of(error: &(dyn Error + 'static), captures: bool) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<ProviderError>() {
            return Some(Self::new(error.kind(), error, captures || tells_no_text(error)));
        }
        if let Some(error) = error.downcast_ref::<EmbeddingError>() {
            let tells_no_text = matches!(
                error,
                EmbeddingError::Network(_)
                    | EmbeddingError::RateLimit { .. }
                    | EmbeddingError::Timeout(_)
            );
            return Some(Self::new(error.kind(), error, captures || tells_no_text));
        }
        let Some(error) = error.downcast_ref::<LoopError>() else {
            return Some(Self::new("_OTHER", error, captures));
        };
        if error.is_waiting() || matches!(error, LoopError::Durable(DurableError::ContinueAsNew(_)))
        {
            return None;
        }
        let tells_no_text = match error {
            LoopError::Provider(error) | LoopError::Context(ContextError::Provider(error)) => {
                tells_no_text(error)
            }
            LoopError::Durable(error) => {
                matches!(error, DurableError::Cancelled | DurableError::SignalTimeout)
            }
            LoopError::MaxTurns(_) | LoopError::UsageLimitExceeded(_) | LoopError::Cancelled => {
                true
            }
            // What a tool, a hook, a strategy or an engine wrote.
            _ => false,
        };
        Some(Self::new(error.innermost_kind(), error, captures || tells_no_text))
    }

    fn new(kind: &'static str, error: &(impl Error + ?Sized), may_be_told: bool) -> Self {
        Self { kind, description: may_be_told.then(|| error.to_string()) }
    }

    /// Nobody wants the result any more: the future was dropped.
    pub(crate) fn dropped() -> Self {
        let description = "dropped before it ended".to_owned();
        Self { kind: LoopError::Cancelled.kind(), description: Some(description) }
    }

    /// Whoever did it panicked.
    pub(crate) fn panicked() -> Self {
        Self { kind: "panic", description: Some("panicked".to_owned()) }
    }

    /// A tool's result says that it failed. (`error.type` by the conventions.)
    pub(crate) fn of_tool_result() -> Self {
        Self { kind: "tool_error", description: None }
    }
}

/// Whether an error's text is neuron's own or the network's: a vendor's may quote what it was sent.
fn tells_no_text(error: &ProviderError) -> bool {
    matches!(
        error,
        ProviderError::Network(_) | ProviderError::RateLimit { .. } | ProviderError::Timeout(_)
    )
}
