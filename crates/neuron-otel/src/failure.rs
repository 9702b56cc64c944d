//! Conversion of errors to the error type and the description in telemetry.

use std::error::Error;

use neuron_types::{ContextError, DurableError, EmbeddingError, LoopError, ProviderError};

/// The recorded failure of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Value of `error.type`.
    pub(crate) kind: &'static str,
    /// Description of the span's status. `None` if the error text may quote content.
    pub(crate) description: Option<String>,
}

impl Failure {
    /// Returns the failure to record for an error. Returns `None` if the operation waits for an approval or continues
    /// as a new run, because neither is a failure. If `captures` is `false`, leaves out a description that may quote
    /// content.
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
            LoopError::MaxTurns(_)
            | LoopError::UsageLimitExceeded(_)
            | LoopError::UnknownPrice(_)
            | LoopError::Cancelled => true,
            // Errors of tools, hooks, strategies and engines may quote content.
            _ => false,
        };
        Some(Self::new(error.innermost_kind(), error, captures || has_no_content))
    }

    fn new(kind: &'static str, error: &(impl Error + ?Sized), may_be_recorded: bool) -> Self {
        Self { kind, description: may_be_recorded.then(|| error.to_string()) }
    }

    /// Returns the failure of an operation whose future was dropped before it ended.
    pub(crate) fn dropped() -> Self {
        let description = "dropped before it ended".to_owned();
        Self { kind: LoopError::Cancelled.kind(), description: Some(description) }
    }

    /// Returns the failure of an operation that panicked.
    pub(crate) fn panicked() -> Self {
        Self { kind: "panic", description: Some("panicked".to_owned()) }
    }

    /// Returns the failure of a tool call whose result is an error. The conventions define its `error.type`.
    pub(crate) fn of_tool_result() -> Self {
        Self { kind: "tool_error", description: None }
    }
}

/// Returns `true` if the text of an error comes from neuron or the network and therefore cannot quote content. A text
/// from a vendor may quote the request.
fn has_no_content(error: &ProviderError) -> bool {
    matches!(
        error,
        ProviderError::Network(_) | ProviderError::RateLimit { .. } | ProviderError::Timeout(_)
    )
}
