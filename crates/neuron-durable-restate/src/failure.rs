//! Error codes of Restate and of the handlers, and the conversion of Restate's errors.

use neuron_types::DurableError;
use restate_sdk::errors::TerminalError;

/// HTTP status of a handler for an invalid request.
pub(crate) const INVALID: u16 = 400;

/// HTTP status of Restate for a cancelled invocation.
pub(crate) const CANCELLED: u16 = 409;

/// HTTP status of the response to a signal for a run that has ended.
pub(crate) const ENDED: u16 = 410;

/// Text of the SDK's error if the current invocation was cancelled. The error for a cancelled child invocation has
/// another text.
const OWN: &str = "cancelled";

/// HTTP status with which a tool's handler fails if Restate or this crate failed, and not the tool itself.
pub(crate) const FAILED: u16 = 500;

/// HTTP status of a tool's handler for a call that may have had its effect and must not run again.
pub(crate) const OUTCOME_UNKNOWN: u16 = 424;

/// Returns the error with which a handler ends if its invocation was cancelled.
pub(crate) fn cancelled() -> TerminalError {
    TerminalError::new_with_code(CANCELLED, OWN)
}

/// Returns the error with which a tool's handler ends if the invocation of the tool was cancelled. The text differs
/// from the text of [`cancelled`], so the parent run does not mistake the error for its own cancellation.
pub(crate) fn call_cancelled() -> TerminalError {
    TerminalError::new_with_code(CANCELLED, "the call was cancelled")
}

/// Returns `true` if the error reports that this invocation was cancelled. The error of a cancelled or killed child
/// invocation has the same code and another text, so both are compared.
pub(crate) fn is_cancellation(error: &TerminalError) -> bool {
    error.code() == CANCELLED && error.message() == OWN
}

/// Converts an error of Restate to the error of the run.
pub(crate) fn durable(error: &TerminalError) -> DurableError {
    if is_cancellation(error) {
        return DurableError::Cancelled;
    }
    match error.code() {
        OUTCOME_UNKNOWN => DurableError::Other(error.message().into()),
        _ => DurableError::ActivityFailed(error.message().to_owned()),
    }
}
