//! Lenient deserialisation of fields that are not essential.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Deserialises a value, or returns the default if the value is null or has another type. Use this function with
/// `deserialize_with`, so that a wrong field does not make the whole response fail.
///
/// # Errors
///
/// Returns an error if the input is not JSON.
pub fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Merges a count of tokens that a later event of a stream reports with the earlier one. The later count replaces it,
/// unless it is missing or zero. Some servers and proxies send zeros in the last event for what they reported before.
#[must_use]
pub fn newer_count(earlier: Option<usize>, later: Option<usize>) -> Option<usize> {
    later.filter(|count| *count > 0).or(earlier).or(later)
}
