//! Restate's errors as ours.

use neuron_types::DurableError;
use restate_sdk::errors::TerminalError;

/// Status of a handler for an invalid request.
pub(crate) const INVALID: u16 = 400;

/// Status of Restate for a cancelled invocation.
pub(crate) const CANCELLED: u16 = 409;

/// HTTP status of the response to a signal for a run that has ended.
pub(crate) const ENDED: u16 = 410;

/// Text of the SDK if the invocation itself was cancelled.
const OWN: &str = "cancelled";

/// Status of the tools handler for any other failure of the engine.
pub(crate) const FAILED: u16 = 500;

/// Status of the tools handler for a call that may have had its effect and must not run again.
pub(crate) const OUTCOME_UNKNOWN: u16 = 424;

/// The end of a handler whose invocation was cancelled.
pub(crate) fn cancelled() -> TerminalError {
    TerminalError::new_with_code(CANCELLED, OWN)
}

/// The end of a call whose own invocation was cancelled, which is not the end of the run that waits for
/// it.
pub(crate) fn call_cancelled() -> TerminalError {
    TerminalError::new_with_code(CANCELLED, "the call was cancelled")
}

/// Returns `true` if the invocation itself was cancelled. A cancelled or killed child invocation ends with the same
/// code.
pub(crate) fn is_cancellation(error: &TerminalError) -> bool {
    error.code() == CANCELLED && error.message() == OWN
}

/// Converts a failure of the engine into the error of the run.
pub(crate) fn durable(error: &TerminalError) -> DurableError {
    if is_cancellation(error) {
        return DurableError::Cancelled;
    }
    match error.code() {
        OUTCOME_UNKNOWN => DurableError::Other(error.message().into()),
        _ => DurableError::ActivityFailed(error.message().to_owned()),
    }
}
