//! Lenient deserialisation of inessential fields, such as token counts and names. An invalid value in such a field must
//! not make the whole response fail.

pub(crate) use neuron_http::or_default;
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::Value;

/// Deserialises a count. Accepts a decimal number such as `3.0`, which some servers send. An invalid value becomes
/// `None`.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(match value.as_u64() {
        Some(count) => usize::try_from(count).ok(),
        None => value.as_f64().filter(|count| (0.0..1e15).contains(count)).map(whole),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is no less than zero, and small enough"
)]
/// Truncates a decimal number to an integer.
fn whole(count: f64) -> usize {
    count as usize
}

/// Returns `true` for an empty value. Empty are null, an empty text, and a list or an object that contains only empty
/// values. Some servers send an empty value for an absent field.
pub(crate) fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_blank),
        Value::Object(fields) => fields.values().all(is_blank),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: Option<usize>) {
        let read = count(&mut serde_json::Deserializer::from_str(json));
        assert_eq!(read.unwrap(), expected, "{json}");
    }

    #[test]
    fn count_is_parsed_from_every_format() {
        check("7", Some(7));
        check("7.0", Some(7));
        check("0", Some(0));
        for json in ["null", "-1", "-0.5", "1e300", "\"7\"", "[]", "{}", "true"] {
            check(json, None);
        }
    }

    #[test]
    fn name_is_parsed_from_every_format() {
        for (json, expected) in [("\"a\"", "a"), ("null", ""), ("7", ""), ("{}", "")] {
            let read: String = or_default(&mut serde_json::Deserializer::from_str(json)).unwrap();
            assert_eq!(read, expected);
        }
    }
}
