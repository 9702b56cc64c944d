//! Conversion of values to JSON text for a column.

use neuron_types::{DurableError, stored_json};
use serde::Serialize;

use crate::JournalError;

/// Converts JSON bytes to a string. JSON is always UTF-8, so an error is not expected.
pub(crate) fn text(json: Vec<u8>) -> Result<String, DurableError> {
    String::from_utf8(json).map_err(|error| DurableError::Other(Box::new(error)))
}

/// Serialises a value to JSON. `what` names the value in the error.
pub(crate) fn to_json(what: &'static str, value: &impl Serialize) -> Result<String, JournalError> {
    stored_json::to_string(value).map_err(|source| JournalError::NotJson { what, source })
}
