//! What is told of an error.

use std::error::Error;

use neuron_types::{DurableError, EmbeddingError, LoopError, ProviderError};

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
            // An answer that cannot be read is shown in its error.
            let may_quote =
                matches!(error, ProviderError::Other(_) | ProviderError::StreamError(_));
            return Some(Self::new(error.kind(), error, captures || !may_quote));
        }
        if let Some(error) = error.downcast_ref::<EmbeddingError>() {
            let may_quote = matches!(error, EmbeddingError::Other(_));
            return Some(Self::new(error.kind(), error, captures || !may_quote));
        }
        let Some(error) = error.downcast_ref::<LoopError>() else {
            return Some(Self::new("_OTHER", error, captures));
        };
        if error.is_waiting() || matches!(error, LoopError::Durable(DurableError::ContinueAsNew(_)))
        {
            return None;
        }
        let may_be_told = captures || !error.may_quote_conversation();
        Some(Self::new(error.innermost_kind(), error, may_be_told))
    }

    fn new(kind: &'static str, error: &(impl Error + ?Sized), may_be_told: bool) -> Self {
        Self { kind, description: may_be_told.then(|| error.to_string()) }
    }

    /// Nobody wants the result any more: the future was dropped.
    pub(crate) fn dropped() -> Self {
        let description = "dropped before it ended".to_owned();
        Self { kind: LoopError::Cancelled.kind(), description: Some(description) }
    }

    /// A tool's result says that it failed. (`error.type` by the conventions.)
    pub(crate) fn of_tool_result() -> Self {
        Self { kind: "tool_error", description: None }
    }
}
