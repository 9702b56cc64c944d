//! Restate's errors as ours.

use neuron_types::DurableError;
use restate_sdk::errors::TerminalError;

/// What a handler says of a request that makes no sense.
pub(crate) const INVALID: u16 = 400;

/// What Restate says of an invocation that was cancelled.
pub(crate) const CANCELLED: u16 = 409;

/// The answer to a signal that would reach nobody.
pub(crate) const ENDED: u16 = 410;

/// What the SDK says where the invocation itself was cancelled.
const OWN: &str = "cancelled";

/// What the tools handler says of any other failure of the engine.
pub(crate) const FAILED: u16 = 500;

/// What the tools handler says of a call that may have had its effect and must not run again.
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

/// Whether the invocation itself was cancelled. One that it waits for ends with the same code when
/// somebody cancels or kills that one.
pub(crate) fn is_cancellation(error: &TerminalError) -> bool {
    error.code() == CANCELLED && error.message() == OWN
}

/// What a failure of the engine means for the run.
pub(crate) fn durable(error: &TerminalError) -> DurableError {
    if is_cancellation(error) {
        return DurableError::Cancelled;
    }
    match error.code() {
        OUTCOME_UNKNOWN => DurableError::Other(error.message().into()),
        _ => DurableError::ActivityFailed(error.message().to_owned()),
    }
}
