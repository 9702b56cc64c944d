//! The telemetry of an error.

use std::error::Error;

use neuron_types::{ContextError, DurableError, EmbeddingError, LoopError, ProviderError};

/// The failure of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The value of `error.type`.
    pub(crate) kind: &'static str,
    /// The description of the span's status. `None` if it may quote content.
    pub(crate) description: Option<String>,
}

impl Failure {
    /// Converts the error of an operation. `None` if the operation waits for an approval or continues elsewhere, which
    /// is not a failure.
    pub(crate) fn of(error: &(dyn Error + 'static), captures: bool) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<ProviderError>() {
            return Some(Self::new(error.kind(), error, captures || has_no_content(error)));
        }
        if let Some(error) = error.downcast_ref::<EmbeddingError>() {
            let has_no_content = matches!(
                error,
                EmbeddingError::Network(_)
                    | EmbeddingError::RateLimit { .. }
                    | EmbeddingError::Timeout(_)
            );
            return Some(Self::new(error.kind(), error, captures || has_no_content));
        }
        let Some(error) = error.downcast_ref::<LoopError>() else {
            return Some(Self::new("_OTHER", error, captures));
        };
        if error.is_waiting() || matches!(error, LoopError::Durable(DurableError::ContinueAsNew(_)))
        {
            return None;
        }
        let has_no_content = match error {
            LoopError::Provider(error) | LoopError::Context(ContextError::Provider(error)) => {
                has_no_content(error)
            }
            LoopError::Durable(error) => {
                matches!(error, DurableError::Cancelled | DurableError::SignalTimeout)
            }
            LoopError::MaxTurns(_) | LoopError::UsageLimitExceeded(_) | LoopError::Cancelled => {
                true
            }
            // Texts of tools, hooks, strategies and engines may quote content.
            _ => false,
        };
        Some(Self::new(error.innermost_kind(), error, captures || has_no_content))
    }

    fn new(kind: &'static str, error: &(impl Error + ?Sized), may_be_recorded: bool) -> Self {
        Self { kind, description: may_be_recorded.then(|| error.to_string()) }
    }

    /// The future was dropped, because the caller no longer needs the result.
    pub(crate) fn dropped() -> Self {
        let description = "dropped before it ended".to_owned();
        Self { kind: LoopError::Cancelled.kind(), description: Some(description) }
    }

    /// The operation panicked.
    pub(crate) fn panicked() -> Self {
        Self { kind: "panic", description: Some("panicked".to_owned()) }
    }

    /// The tool returned a failed result. The conventions define this `error.type`.
    pub(crate) fn of_tool_result() -> Self {
        Self { kind: "tool_error", description: None }
    }
}

/// Returns `true` if an error's text comes from neuron or the network. A vendor's text may quote the request.
fn has_no_content(error: &ProviderError) -> bool {
    matches!(
        error,
        ProviderError::Network(_) | ProviderError::RateLimit { .. } | ProviderError::Timeout(_)
    )
}
