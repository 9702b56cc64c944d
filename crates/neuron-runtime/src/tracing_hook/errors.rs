//! What is told of an error: its kind, and its text unless that may quote a conversation.

use neuron_types::{ContextError, DurableError, LoopError, ProviderError, ToolError};

/// An error's kind, with that of the error inside it: `Provider.RateLimit`.
pub(super) fn kind(error: &LoopError) -> String {
    let inner = match error {
        LoopError::Provider(error) | LoopError::Context(ContextError::Provider(error)) => {
            error.kind()
        }
        LoopError::Tool(error) => error.kind(),
        LoopError::Durable(error) => error.kind(),
        error => return error.kind().to_owned(),
    };
    format!("{}.{inner}", error.kind())
}

/// Whether an error's text may quote arguments, results or an answer.
pub(super) fn may_quote(error: &LoopError) -> bool {
    match error {
        LoopError::Tool(_) | LoopError::InvalidOutput { .. } => true,
        // An answer that cannot be read is shown in its error.
        LoopError::Provider(error) | LoopError::Context(ContextError::Provider(error)) => {
            matches!(error, ProviderError::Other(_) | ProviderError::StreamError(_))
        }
        LoopError::Durable(error) => matches!(
            error,
            DurableError::Tool(_) | DurableError::ActivityFailed(_) | DurableError::Other(_)
        ),
        _ => false,
    }
}

/// Whether an error means that the run waits for a person.
pub(super) fn is_waiting(error: &LoopError) -> bool {
    matches!(
        error,
        LoopError::ApprovalRequired(_) | LoopError::Tool(ToolError::ApprovalRequired(_))
    )
}

/// How what ended with an error ended, in one word.
pub(super) fn outcome(error: &LoopError) -> &'static str {
    if is_waiting(error) { "waiting" } else { "error" }
}
