//! Errors as texts, with their causes.

use std::error::Error;
use std::iter::successors;

/// Returns an error and its causes in one line, without causes that the text has already.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    successors(error.source(), |&cause| cause.source()).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}
