//! Texts of errors with their causes.

use std::error::Error;
use std::iter::successors;

/// Returns the text of an error and of its causes in one line, joined by `: `. Omits a cause if the text already
/// contains it.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    successors(error.source(), |&cause| cause.source()).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}
