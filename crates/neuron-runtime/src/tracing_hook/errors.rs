//! Names of an error's kind and outcome for the fields of events and spans.

use neuron_types::LoopError;

/// Returns the kind of an error with the kind of its inner error, for example `Provider.RateLimit`.
pub(super) fn kind(error: &LoopError) -> String {
    match (error.kind(), error.innermost_kind()) {
        (kind, inner) if kind == inner => kind.to_owned(),
        (kind, inner) => format!("{kind}.{inner}"),
    }
}

/// Returns the field `outcome` of a run or call that ended with an error. It is `waiting` if the run or call waits for
/// an approval, and otherwise `error`.
pub(super) fn outcome(error: &LoopError) -> &'static str {
    if error.is_waiting() { "waiting" } else { "error" }
}
