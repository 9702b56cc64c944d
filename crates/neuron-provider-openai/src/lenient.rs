//! Reading what is not needed without losing what is: a count or a name in a form of its own must not
//! cost an answer.

pub(crate) use neuron_http::or_default;
use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::Value;

/// Reads a count, which some servers write as a decimal. One that makes no sense is none.
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
fn whole(count: f64) -> usize {
    count as usize
}

/// Returns `true` for null, for an empty text, and for lists and objects of these: the stubs that some
/// servers write for fields that an answer does not have.
pub(crate) fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(says_nothing),
        Value::Object(fields) => fields.values().all(says_nothing),
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
    fn a_count_in_every_form() {
        check("7", Some(7));
        check("7.0", Some(7));
        check("0", Some(0));
        for json in ["null", "-1", "-0.5", "1e300", "\"7\"", "[]", "{}", "true"] {
            check(json, None);
        }
    }

    #[test]
    fn a_name_in_every_form() {
        for (json, expected) in [("\"a\"", "a"), ("null", ""), ("7", ""), ("{}", "")] {
            let read: String = or_default(&mut serde_json::Deserializer::from_str(json)).unwrap();
            assert_eq!(read, expected);
        }
    }
}
