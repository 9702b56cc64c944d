//! Assembly of a function call whose arguments arrive in fragments. Vertex AI sends them if a request sets
//! `toolConfig.functionCallingConfig.streamFunctionCallArguments`.
//!
//! The first part of the call has its name. Each part but the last has `willContinue`, and the last part may be empty.
//! A fragment of the arguments has a path and a value. The texts with the same path are pieces of one text.
//!
//! - <https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling#streaming-fc>
//! - <https://googleapis.github.io/js-genai/release_docs/interfaces/types.PartialArg.html>

use neuron_model::ProviderError;
use serde_json::{Map, Value};

/// Maximum number of names and indexes in a path. The parser of JSON accepts 128 levels, and the arguments are stored
/// within other JSON.
const MAX_DEPTH: usize = 64;

/// Maximum index in a path, and maximum number of list items of a call that are only there because an index skipped
/// them. Without a limit, a short path could allocate a huge list.
const MAX_INDEX: usize = 10_000;

/// Number of characters of a path that an error shows.
const SHOWN: usize = 200;

/// A function call whose last part has not arrived.
#[derive(Debug, Default)]
pub(crate) struct PartialCall {
    /// The fields of all parts, without the call.
    part: Map<String, Value>,
    /// The fields of the call in all parts, without the arguments.
    call: Map<String, Value>,
    args: Map<String, Value>,
    /// Number of list items that an index skipped.
    skipped: usize,
}

impl PartialCall {
    /// Returns `true` if a part has a fragment of a call, and not a whole call.
    pub(crate) fn is_fragment(call: &Map<String, Value>) -> bool {
        call.contains_key("partialArgs") || continues(call)
    }

    /// Adds a part. `call` is its call, and `part` has its other fields. Returns `true` if this is the last part.
    ///
    /// # Errors
    ///
    /// [`ProviderError::StreamError`] if the part begins another call, if the first part has no name, or if an argument has
    /// no valid path.
    pub(crate) fn extend(
        &mut self,
        part: Map<String, Value>,
        mut call: Map<String, Value>,
    ) -> Result<bool, ProviderError> {
        call.retain(|_, value| !value.is_null() && value != "");
        match (self.call.contains_key("name"), call.contains_key("name")) {
            (true, true) => return Err(malformed("a call began within another call")),
            (false, false) => return Err(malformed("the arguments of a call precede its name")),
            _ => {}
        }
        let is_last = !continues(&call);
        call.remove("willContinue");
        if let Some(Value::Array(fragments)) = call.remove("partialArgs") {
            fragments.into_iter().try_for_each(|fragment| self.add_argument(fragment))?;
        }
        if let Some(Value::Object(args)) = call.remove("args") {
            self.args.extend(args);
        }
        self.call.extend(call);
        self.part.extend(part);
        Ok(is_last)
    }

    /// Returns a part with the whole call.
    pub(crate) fn into_part(mut self) -> Value {
        self.call.insert("args".to_owned(), self.args.into());
        self.part.insert("functionCall".to_owned(), self.call.into());
        self.part.into()
    }

    /// Adds a fragment of the arguments. A fragment without a value has no effect.
    fn add_argument(&mut self, mut fragment: Value) -> Result<(), ProviderError> {
        let path = fragment.get("jsonPath").and_then(Value::as_str).unwrap_or_default().to_owned();
        let refused = || {
            let shown: String = path.chars().take(SHOWN).collect();
            malformed(&format!("an argument cannot be placed at the path `{shown}`"))
        };
        let keys = ["stringValue", "numberValue", "boolValue", "nullValue"];
        let Some(key) = keys.into_iter().find(|key| fragment.get(key).is_some()) else {
            return Ok(());
        };
        let value = match key {
            // The value is the text `NULL_VALUE`, or null.
            "nullValue" => Value::Null,
            key => fragment.get_mut(key).map(Value::take).unwrap_or_default(),
        };
        let mut keys = keys_of(&path).ok_or_else(refused)?.into_iter();
        let Some(Key::Name(first)) = keys.next() else {
            return Err(refused());
        };
        let mut place = self.args.entry(first).or_insert(Value::Null);
        for key in keys {
            place = match key {
                Key::Name(name) => {
                    if place.is_null() {
                        *place = Value::Object(Map::new());
                    }
                    let fields = place.as_object_mut().ok_or_else(refused)?;
                    fields.entry(name).or_insert(Value::Null)
                }
                Key::Index(index) => {
                    if place.is_null() {
                        *place = Value::Array(Vec::new());
                    }
                    let items = place.as_array_mut().ok_or_else(refused)?;
                    if index >= items.len() {
                        self.skipped += index - items.len();
                        if self.skipped > MAX_INDEX {
                            return Err(refused());
                        }
                        items.resize(index + 1, Value::Null);
                    }
                    items.get_mut(index).ok_or_else(refused)?
                }
            };
        }
        match (place, value) {
            (Value::String(text), Value::String(more)) => text.push_str(&more),
            (place, value) => *place = value,
        }
        Ok(())
    }
}

fn continues(call: &Map<String, Value>) -> bool {
    call.get("willContinue") == Some(&Value::Bool(true))
}

fn malformed(what: &str) -> ProviderError {
    ProviderError::StreamError(format!("the server streams a call in a wrong format: {what}"))
}

/// A step of a path.
#[derive(Debug, PartialEq)]
enum Key {
    /// Name of a field.
    Name(String),
    /// Index in a list.
    Index(usize),
}

/// Parses a path such as `$.a[0]['b c']`, which selects one value. Returns `None` for any other path, and for a path
/// beyond the limits.
///
/// <https://www.rfc-editor.org/rfc/rfc9535>
fn keys_of(path: &str) -> Option<Vec<Key>> {
    let mut rest = path.strip_prefix('$')?;
    let mut keys = Vec::new();
    while !rest.is_empty() {
        if keys.len() == MAX_DEPTH {
            return None;
        }
        let (key, after) = match rest.strip_prefix('.') {
            Some(name) => {
                let end = name.find(['.', '[']).unwrap_or(name.len());
                let (name, after) = name.split_at(end);
                (Key::Name(Some(name).filter(|name| !name.is_empty())?.to_owned()), after)
            }
            None => {
                let inner = rest.strip_prefix('[')?;
                if inner.starts_with(['\'', '"']) {
                    let (name, after) = quoted(inner)?;
                    (Key::Name(name), after.strip_prefix(']')?)
                } else {
                    let (index, after) = inner.split_once(']')?;
                    let is_number = index.bytes().all(|byte| byte.is_ascii_digit());
                    let index = index
                        .parse::<usize>()
                        .ok()
                        .filter(|index| is_number && *index <= MAX_INDEX)?;
                    (Key::Index(index), after)
                }
            }
        };
        keys.push(key);
        rest = after;
    }
    Some(keys)
}

/// Parses the name at the beginning of a text, in single or double quotes. Returns the text after it too.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut chars = text.char_indices();
    let (_, quote) = chars.next()?;
    // The escapes are JSON's, except for the one of the single quote.
    let mut json = String::from('"');
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                let (_, escaped) = chars.next()?;
                if escaped != '\'' {
                    json.push('\\');
                }
                json.push(escaped);
            }
            c if c == quote => {
                json.push('"');
                return Some((serde_json::from_str(&json).ok()?, text.get(at + 1..)?));
            }
            '"' => json.push_str("\\\""),
            c => json.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the arguments of a call with these fragments.
    fn args(fragments: Value) -> Result<Value, String> {
        let call = json!({"name": "f", "partialArgs": fragments});
        let Value::Object(call) = call else { unreachable!() };
        let mut partial = PartialCall::default();
        match partial.extend(Map::new(), call) {
            Ok(is_last) => assert!(is_last),
            Err(error) => return Err(error.to_string()),
        }
        Ok(partial.into_part()["functionCall"]["args"].take())
    }

    #[test]
    fn each_kind_of_value_and_path_is_placed() {
        let fragments = json!([
            {"jsonPath": "$.city", "stringValue": "Bos", "willContinue": true},
            {"jsonPath": "$.city", "stringValue": "ton"},
            {"jsonPath": "$.at.hour", "numberValue": 7},
            {"jsonPath": "$.at.exact", "boolValue": true},
            {"jsonPath": "$.at.zone", "nullValue": "NULL_VALUE"},
            {"jsonPath": "$.at.note", "nullValue": null},
            {"jsonPath": "$.tags[0]", "stringValue": "a"},
            {"jsonPath": "$.tags[2].x", "numberValue": 1.5},
            {"jsonPath": "$['a b'][\"c'd\"]", "stringValue": "x"},
            {"jsonPath": "$['it\\'s \"\\u00e9\"']", "stringValue": "y"},
            {"jsonPath": "$.nothing", "willContinue": true},
        ]);
        assert_eq!(
            args(fragments).unwrap(),
            json!({
                "city": "Boston",
                "at": {"hour": 7, "exact": true, "zone": null, "note": null},
                "tags": ["a", null, {"x": 1.5}],
                "a b": {"c'd": "x"},
                "it's \"é\"": "y",
            })
        );
    }

    #[test]
    fn invalid_path_is_an_error() {
        let deep = |levels| format!("${}", ".a".repeat(levels));
        for path in [
            "",
            "a",
            "$",
            "$.",
            "$..a",
            "$[0]",
            "$.a[",
            "$.a[]",
            "$.a[-1]",
            "$.a[+1]",
            "$.a[*]",
            "$.a[10001]",
            "$.a[99999999999999999999]",
            "$['a",
            "$['a'",
            "$['a\\",
            "$['\\x']",
            "$.text.b",
            "$.text[0]",
            &deep(65),
        ] {
            let fragments = json!([
                {"jsonPath": "$.text", "stringValue": "x"},
                {"jsonPath": path, "boolValue": true},
            ]);
            let error = args(fragments).unwrap_err();
            assert!(
                error.ends_with(&format!("the path `{}`", &path[..path.len().min(SHOWN)])),
                "{error}"
            );
        }
        args(json!([{"jsonPath": deep(64), "boolValue": true}])).unwrap();
        args(json!([{"jsonPath": "$.a[10000]", "boolValue": true}])).unwrap();
    }

    /// Each path alone is within the limits.
    #[test]
    fn skipped_items_of_all_lists_are_limited() {
        let fragment =
            |list: usize| json!({"jsonPath": format!("$.a[{list}][6000]"), "boolValue": true});
        args(json!([fragment(0)])).unwrap();
        args(json!([fragment(0), fragment(1)])).unwrap_err();
        args(json!([{"jsonPath": "$.a[9000][9000]", "boolValue": true}])).unwrap_err();
    }
}
