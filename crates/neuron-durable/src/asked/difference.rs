//! Describes the difference between two model requests in an error text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use neuron_types::{DurableError, RequestRef};
use serde_json::Value;

use super::Asked;
use crate::digest;

/// Maximum length in bytes of a request's field in the journal. Longer fields are cut.
const LONGEST_FIELD: usize = 4096;

/// Maximum length in characters of an excerpt from a changed field. An excerpt starts at most `SHOWN_BEFORE` characters
/// before the first difference between the old and the new text.
const SHOWN: usize = 120;
const SHOWN_BEFORE: usize = 30;

/// Maximum number of changed fields that an error names.
const FIELDS_SHOWN: usize = 8;

type Fields = BTreeMap<String, String>;

/// Returns the settings of a request as JSON texts, by field name. The settings are all fields except the messages.
/// Each field of a tool has its own entry, such as `tools.search.description`.
pub(super) fn fields(settings: RequestRef<'_>) -> Result<Fields, DurableError> {
    let json = |error: serde_json::Error| DurableError::Other(error.into());
    let Value::Object(values) = serde_json::to_value(settings).map_err(json)? else {
        return Ok(Fields::new());
    };
    let mut fields = Fields::new();
    for (name, value) in values {
        match (name.as_str(), value) {
            ("messages", _) => {}
            // `extra` may contain a vendor's access tokens, so only its digest is stored.
            ("extra", value) => {
                fields.insert(name, format!("digest {}", digest::of(&value)?));
            }
            ("tools", Value::Array(tools)) => {
                for tool in tools {
                    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
                    let path = format!("tools.{name}");
                    for (field, value) in tool.as_object().into_iter().flatten() {
                        fields.insert(format!("{path}.{field}"), kept(&value.to_string())?);
                    }
                }
            }
            (_, value) => {
                fields.insert(name, kept(&value.to_string())?);
            }
        }
    }
    Ok(fields)
}

/// Returns the text of a request's field in the form that is stored in the journal. A text of more than
/// [`LONGEST_FIELD`] bytes is cut, and the digest of the whole text is appended.
fn kept(text: &str) -> Result<String, DurableError> {
    if text.len() <= LONGEST_FIELD {
        return Ok(text.to_owned());
    }
    let start: String = text.chars().take(LONGEST_FIELD / 4).collect();
    Ok(format!("{start}… (digest {})", digest::of(&text)?))
}

/// Describes the differences between a recorded model request and a new one. Returns the texts for the fields
/// `expected` and `got` of [`DurableError::NonDeterminism`].
///
/// `old` is the recorded request. Each request is given as its summary and the fields of its settings. The fields are
/// `None` if only the digest of the settings is known.
pub(super) fn texts(
    old: (&Asked, Option<&Fields>),
    new: (&Asked, Option<&Fields>),
) -> (String, String) {
    let (mut expected, mut got) = (Vec::new(), Vec::new());
    let ((asked, fields), (new_asked, new_fields)) = (old, new);
    if asked.settings == new_asked.settings {
        // Only the messages differ. They are compared below.
    } else if let (Some(fields), Some(new_fields)) = (fields, new_fields) {
        let names: BTreeSet<_> = fields.keys().chain(new_fields.keys()).collect();
        let mut differ =
            names.into_iter().filter(|name| fields.get(*name) != new_fields.get(*name));
        for name in differ.by_ref().take(FIELDS_SHOWN) {
            let (old, new) = (fields.get(name), new_fields.get(name));
            expected.push(shown(name, old, new));
            got.push(shown(name, new, old));
        }
        match (differ.count(), expected.is_empty()) {
            (0, false) => {}
            // All fields are equal but the digests differ, so only the order of the tools changed.
            (0, true) => {
                expected.push("tools in another order".to_owned());
                got.push("the same tools".to_owned());
            }
            (more, _) => got.push(format!("and {more} more fields differ")),
        }
    } else {
        let text = |asked: &Asked| format!("settings: digest {}", asked.settings);
        expected.push(text(asked));
        got.push(text(new_asked));
    }
    let conversation = |asked: &Asked| (asked.messages, asked.conversation.clone());
    if conversation(asked) != conversation(new_asked) {
        let text = |(count, digest)| format!("messages: {count} of digest {digest}");
        expected.push(text(conversation(asked)));
        got.push(text(conversation(new_asked)));
    }
    (expected.join(", "), got.join(", "))
}

/// Returns an excerpt of a field's value for an error. The excerpt surrounds the first difference between `value` and
/// `other`, the value of the field `name` in another request. A missing field is `None`.
fn shown(name: &str, value: Option<&String>, other: Option<&String>) -> String {
    let Some(value) = value else {
        return format!("no {name}");
    };
    let other = other.map(String::as_str).unwrap_or_default();
    let same = value.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let start = same.saturating_sub(SHOWN_BEFORE);
    let mut text = format!("{name}: ");
    if start > 0 {
        text.push('…');
    }
    text.extend(value.chars().skip(start).take(SHOWN));
    if value.chars().nth(start + SHOWN).is_some() {
        // Writing to a string does not fail.
        let _ = write!(text, "… ({} characters)", value.chars().count());
    }
    text
}
