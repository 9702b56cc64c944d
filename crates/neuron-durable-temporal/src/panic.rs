//! What a panic said.

use std::any::Any;

/// The text for the log; it may quote anything, so that no history gets it.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}
