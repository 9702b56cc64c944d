//! Reading fields that must not cost an answer.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads a value leniently: its default if it is null or has another form. For `deserialize_with` on a field that must
/// not cost an answer.
///
/// # Errors
///
/// Errors of the deserializer, for text that is not JSON.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}
