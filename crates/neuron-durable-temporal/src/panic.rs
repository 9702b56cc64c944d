//! The message of a panic.

use std::any::Any;

/// Returns the message for the log. It may contain secrets and is never stored in a history.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}
