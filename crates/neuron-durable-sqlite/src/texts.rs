//! JSON as a column holds it.

use neuron_types::{DurableError, stored_json};
use serde::Serialize;

use crate::JournalError;

/// JSON is always a text.
pub(crate) fn text(json: Vec<u8>) -> Result<String, DurableError> {
    String::from_utf8(json).map_err(|error| DurableError::Other(Box::new(error)))
}

/// Serialises a value. The error names it as `what`.
pub(crate) fn to_json(what: &'static str, value: &impl Serialize) -> Result<String, JournalError> {
    stored_json::to_string(value).map_err(|source| JournalError::NotJson { what, source })
}
