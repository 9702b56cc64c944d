//! Reads the requests and responses in the folder `corpus`.
//!
//! The files contain requests and responses in the serialised form of their types, with three abbreviations:
//!
//! - A string in a `content` array is replaced by a text block.
//! - A string such as `$weather` is replaced by the value with this name in the section `shared`.
//! - Fields that a value does not have are taken from the section `defaults`.

use neuron_types::{CompletionRequest, EmbeddingRequest};
use serde_json::{Error, Map, Value, json};

use crate::vendor::Vendor;

/// The corpus file with the values for all vendors.
const COMMON: &str = include_str!("../corpus/common.json");

/// Returns the requests that a vendor's provider must send, each with its name.
pub(crate) fn requests(vendor: &Vendor) -> Result<Vec<(String, CompletionRequest)>, Error> {
    let named = section(vendor, "requests")?.into_iter();
    named.map(|(name, request)| Ok((name, serde_json::from_value(request)?))).collect()
}

/// Returns the requests for embeddings, each with its name.
pub(crate) fn embedding_requests(
    vendor: &Vendor,
) -> Result<Vec<(String, EmbeddingRequest)>, Error> {
    let named = section(vendor, "embeddings")?.into_iter();
    named.map(|(name, request)| Ok((name, serde_json::from_value(request)?))).collect()
}

/// Returns the named values of a section, with all abbreviations replaced. The values for all vendors come first,
/// followed by the values for this vendor.
pub(crate) fn section(vendor: &Vendor, section: &str) -> Result<Vec<(String, Value)>, Error> {
    let common: Map<String, Value> = serde_json::from_str(COMMON)?;
    let own: Map<String, Value> = serde_json::from_str(vendor.corpus)?;
    let mut shared = Map::new();
    shared.insert("long".into(), "All work and no play makes Jack a dull boy. ".repeat(200).into());
    shared.extend([&common, &own].into_iter().flat_map(|file| fields(file.get("shared"))));
    let defaults = common.get("defaults").and_then(|defaults| defaults.get(section));
    let named = [&common, &own].into_iter().flat_map(|file| fields(file.get(section)));
    let expanded = named.map(|(name, value)| {
        let all = fields(defaults).chain(fields(Some(&value))).collect();
        (name, expand(Value::Object(all), &shared))
    });
    Ok(expanded.collect())
}

/// Returns the fields of a JSON object. Returns no fields for any other value.
fn fields(value: Option<&Value>) -> impl Iterator<Item = (String, Value)> {
    value.and_then(Value::as_object).cloned().into_iter().flatten()
}

/// Replaces the abbreviations in a value by the values of the section `shared` and by text blocks.
fn expand(value: Value, shared: &Map<String, Value>) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix('$').and_then(|name| shared.get(name)) {
            Some(known) => expand(known.clone(), shared),
            None => text.into(),
        },
        Value::Array(items) => items.into_iter().map(|item| expand(item, shared)).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| {
                let is_content = name == "content";
                let mut value = expand(value, shared);
                if is_content && let Value::Array(blocks) = &mut value {
                    for block in blocks.iter_mut().filter(|block| block.is_string()) {
                        *block = json!({"type": "text", "text": block.take()});
                    }
                }
                (name, value)
            });
            fields.collect()
        }
        other => other,
    }
}
