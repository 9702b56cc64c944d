//! The differences between two requests.

use serde_json::Value;

/// Maximum number of characters that an error text shows of a recorded or sent value.
const SHOWN: usize = 120;

/// Returns the differences between a recorded and a sent value, as lines with the path of each difference.
pub(crate) fn differences(recorded: &Value, sent: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", Some(recorded), Some(sent), &mut found);
    found
}

fn compare(path: &str, recorded: Option<&Value>, sent: Option<&Value>, found: &mut Vec<String>) {
    match (recorded, sent) {
        (Some(Value::Object(recorded)), Some(Value::Object(sent))) => {
            let new = sent.keys().filter(|key| !recorded.contains_key(*key));
            for key in recorded.keys().chain(new) {
                let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&place, recorded.get(key), sent.get(key), found);
            }
        }
        (Some(Value::Array(recorded)), Some(Value::Array(sent))) => {
            for index in 0..recorded.len().max(sent.len()) {
                let place = format!("{path}[{index}]");
                compare(&place, recorded.get(index), sent.get(index), found);
            }
        }
        (recorded, sent) if recorded == sent => {}
        (recorded, sent) => {
            let (recorded, sent) = (part(recorded, sent), part(sent, recorded));
            found.push(format!("{path}: recorded {recorded}, sent {sent}"));
        }
    }
}

/// Returns a part of `value` as JSON for an error text. The part contains the first difference to `other`, and has at
/// most [`SHOWN`] characters.
fn part(value: Option<&Value>, other: Option<&Value>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let text = value.to_string();
    if text.chars().count() <= SHOWN {
        return text;
    }
    let other = other.map(Value::to_string).unwrap_or_default();
    let same = text.chars().zip(other.chars()).take_while(|(one, two)| one == two).count();
    // Some characters before the difference show its place in the text.
    let start = same.saturating_sub(SHOWN / 4);
    let shown: String = text.chars().skip(start).take(SHOWN).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if text.chars().count() > start + SHOWN { "…" } else { "" };
    format!("{before}{shown}{after}")
}
