//! The kind and the outcome of an error in log lines.

use neuron_types::LoopError;

/// Returns the kind of an error with the kind of its inner error, for example `Provider.RateLimit`.
pub(super) fn kind(error: &LoopError) -> String {
    match (error.kind(), error.innermost_kind()) {
        (kind, inner) if kind == inner => kind.to_owned(),
        (kind, inner) => format!("{kind}.{inner}"),
    }
}

/// Returns the outcome of a run or call that ended with an error, in one word.
pub(super) fn outcome(error: &LoopError) -> &'static str {
    if error.is_waiting() { "waiting" } else { "error" }
}
