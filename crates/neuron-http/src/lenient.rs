//! Lenient deserialisation of fields that are not essential.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Deserialises a value, or its default if the value is null or has another type. Use it with `deserialize_with` on a
/// field that must not make a response fail.
///
/// # Errors
///
/// The errors of the deserializer, for input that is not JSON.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}
