//! What is told of an error: its kind, and how what it ended is said to have ended.

use neuron_types::LoopError;

/// An error's kind, with that of the error inside it: `Provider.RateLimit`.
pub(super) fn kind(error: &LoopError) -> String {
    match (error.kind(), error.innermost_kind()) {
        (kind, inner) if kind == inner => kind.to_owned(),
        (kind, inner) => format!("{kind}.{inner}"),
    }
}

/// How what ended with an error ended, in one word.
pub(super) fn outcome(error: &LoopError) -> &'static str {
    if error.is_waiting() { "waiting" } else { "error" }
}
