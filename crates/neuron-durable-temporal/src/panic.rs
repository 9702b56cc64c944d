//! Extracts the message of a panic for the log.

use std::any::Any;

/// Returns the message of a panic for the log, or an empty string if the panic has no text. Never store the message in
/// a history, because it may contain secrets.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}
