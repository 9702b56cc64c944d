//! Serialises request bodies from borrowed data, and merges the caller's extra fields into them ([`write_json`]).

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use neuron_model::{ProviderError, ToolDefinition};
use serde::ser::{Error as _, SerializeMap};
use serde::{Serialize, Serializer};
use serde_json::ser::{CompactFormatter, Compound};
use serde_json::{Map, Value};

/// Writes a JSON object, and merges the fields of `extra` into it. The closure writes the fields of the object one by
/// one.
///
/// - An object in `extra` is merged into the object of the same name, and so are the objects inside it.
/// - The array `tools` at the top level of `extra` is appended to the array of the same name.
/// - Any other field of `extra` replaces the field of the same name.
///
/// Only a field that `extra` has too is converted to a [`Value`]. A long conversation is therefore serialised without a
/// copy.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if `extra` is not an object or contains `stream`, or if a value cannot be
/// serialised.
///
/// # Example
///
/// ```
/// use neuron_http::write_json;
/// use serde_json::json;
///
/// let extra = json!({"options": {"seed": 7}, "tools": [{"type": "web_search"}]});
/// let body = write_json(Some(&extra), |fields| {
///     fields.entry("model", "m")?;
///     fields.entry("options", &json!({"top_k": 2}))?;
///     fields.entry("tools", &json!([{"name": "add"}]))?;
///     fields.rest_but("messages")?;
///     fields.entry("messages", &["hi"])
/// })?;
/// assert_eq!(
///     String::from_utf8_lossy(&body),
///     r#"{"model":"m","options":{"top_k":2,"seed":7},"tools":[{"name":"add"},{"type":"web_search"}],"messages":["hi"]}"#
/// );
/// # Ok::<_, neuron_model::ProviderError>(())
/// ```
pub fn write_json(
    extra: Option<&Value>,
    write: impl FnOnce(&mut Fields<'_>) -> serde_json::Result<()>,
) -> Result<Vec<u8>, ProviderError> {
    let extra = match extra {
        None | Some(Value::Null) => None,
        Some(Value::Object(extra)) if extra.contains_key("stream") => {
            return Err(ProviderError::InvalidRequest(
                "`extra` cannot set `stream`: call complete or complete_stream".into(),
            ));
        }
        Some(Value::Object(extra)) => Some(extra),
        Some(_) => {
            return Err(ProviderError::InvalidRequest(
                "`extra` must be a JSON object: its fields are merged into the request".into(),
            ));
        }
    };
    let mut body = Vec::with_capacity(1024);
    let mut serializer = serde_json::Serializer::new(&mut body);
    let written = serializer.serialize_map(None).and_then(|map| {
        let mut fields = Fields { map, extra, written: Vec::new(), left_out: &[] };
        write(&mut fields)?;
        fields.rest_but("")?;
        fields.map.end()
    });
    match written {
        Ok(()) => Ok(body),
        Err(error) => Err(ProviderError::InvalidRequest(format!("cannot be written: {error}"))),
    }
}

/// Serialises the [vendor fields](ToolDefinition::vendor_fields) of a tool. Add the fields to the tool's JSON with
/// `#[serde(flatten)]`.
#[derive(Debug, Clone, Copy)]
pub struct VendorFields<'a> {
    /// The tool with the vendor fields.
    pub tool: &'a ToolDefinition,
    /// Name of the provider.
    pub provider: &'a str,
    /// Names of the fields that the provider writes itself, which are left out.
    pub written: &'a [&'a str],
}

impl Serialize for VendorFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.tool.vendor_fields(self.provider, self.written))
    }
}

/// Writes the fields of one JSON object, and merges extra fields into them. [`write_json`] creates the writer.
pub struct Fields<'a> {
    map: Compound<'a, &'a mut Vec<u8>, CompactFormatter>,
    extra: Option<&'a Map<String, Value>>,
    /// Names of the fields of `extra` that were already written.
    written: Vec<&'a str>,
    /// Names of the fields that are written only if `extra` has them.
    left_out: &'static [&'static str],
}

impl Fields<'_> {
    /// Leaves out fields that the server rejects. A field that `extra` contains is still written.
    pub fn leave_out(&mut self, names: &'static [&'static str]) {
        self.left_out = names;
    }

    /// Writes a field, merged with the field of the same name in `extra`.
    ///
    /// # Errors
    ///
    /// Returns an error if the value cannot be serialised.
    pub fn entry<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> serde_json::Result<()> {
        match self.extra.and_then(|extra| extra.get_key_value(key)) {
            None if self.left_out.contains(&key) => Ok(()),
            None => self.map.serialize_entry(key, value),
            Some((key, more)) => {
                self.written.push(key);
                let mut json = serde_json::to_value(value)?;
                merge(key, &mut json, more);
                self.map.serialize_entry(key, &json)
            }
        }
    }

    /// Writes a field if its value is `Some`.
    ///
    /// # Errors
    ///
    /// Returns an error if the value cannot be serialised.
    pub fn some<T: Serialize>(&mut self, key: &str, value: Option<T>) -> serde_json::Result<()> {
        value.map_or(Ok(()), |value| self.entry(key, &value))
    }

    /// Writes the fields of `extra` that were not written yet, except the field named `later`.
    ///
    /// Call this method before you write the last field, and pass the name of this field as `later`. The last field
    /// should grow with each turn, as the messages do. The body then begins with the same bytes as in the previous
    /// turn, which prompt caches require.
    ///
    /// # Errors
    ///
    /// Returns an error if a value cannot be serialised.
    pub fn rest_but(&mut self, later: &str) -> serde_json::Result<()> {
        for (key, value) in self.extra.into_iter().flatten() {
            if key != later && !self.written.contains(&key.as_str()) {
                self.written.push(key);
                self.map.serialize_entry(key, value)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fields").field("written", &self.written).finish_non_exhaustive()
    }
}

/// Merges `more`, the value of a field of `extra`, into the field of the same name. `key` is the name of a field at the
/// top level, and an empty text for a nested field.
fn merge(key: &str, field: &mut Value, more: &Value) {
    match (field, more) {
        (Value::Array(tools), Value::Array(more)) if key == "tools" => {
            tools.extend(more.iter().cloned());
        }
        (Value::Object(fields), Value::Object(more)) => {
            for (key, more) in more {
                match fields.get_mut(key) {
                    // Only the array `tools` at the top level is appended to. The key is empty, so that a nested array
                    // of this name is replaced.
                    Some(field @ Value::Object(_)) => merge("", field, more),
                    _ => {
                        fields.insert(key.clone(), more.clone());
                    }
                }
            }
        }
        (field, more) => *field = more.clone(),
    }
}

/// Serialises a number in its shortest decimal form, for example 0.7 instead of 0.699999988079071. Returns an error for
/// infinity and NaN, which JSON does not have.
#[derive(Debug, Clone, Copy)]
pub struct Shortest(pub f32);

impl Serialize for Shortest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(number) = *self;
        if !number.is_finite() {
            return Err(S::Error::custom(format_args!("JSON has no number {number}")));
        }
        serializer.serialize_f64(number.to_string().parse().unwrap_or_else(|_| number.into()))
    }
}

/// Serialises the arguments of a tool call for vendors that accept only objects. Null becomes an empty object. Any
/// other value that is not an object becomes the field `input` of an object.
#[derive(Debug, Clone, Copy)]
pub struct ObjectInput<'a>(pub &'a Value);

impl Serialize for ObjectInput<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => fields.serialize(serializer),
            Value::Null => serializer.serialize_map(Some(0))?.end(),
            other => serializer.collect_map([("input", other)]),
        }
    }
}

/// Returns the caller's extra fields as an object with sorted keys, so that equal requests have equal bytes.
#[must_use]
pub fn sorted_extra(extra: &HashMap<String, Value>) -> Value {
    let extra: BTreeMap<&String, &Value> = extra.iter().collect();
    Value::Object(extra.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(extra: Value, expected: &str) {
        let body = write_json(Some(&extra), |fields| {
            fields.entry("a", &json!({"x": {"y": 1, "z": [1]}}))?;
            fields.entry("tools", &json!([1]))?;
            fields.some("b", None::<u8>)?;
            fields.rest_but("messages")?;
            fields.entry("messages", &json!([1]))
        });
        assert_eq!(String::from_utf8(body.unwrap()).unwrap(), expected);
    }

    #[test]
    fn write_json_merges_extra_fields() {
        check(json!({}), r#"{"a":{"x":{"y":1,"z":[1]}},"tools":[1],"messages":[1]}"#);
        check(json!(null), r#"{"a":{"x":{"y":1,"z":[1]}},"tools":[1],"messages":[1]}"#);
        check(
            json!({"a": {"x": {"y": 2, "w": 3, "z": [2]}, "tools": [4]}, "b": 1}),
            r#"{"a":{"x":{"y":2,"z":[2],"w":3},"tools":[4]},"tools":[1],"b":1,"messages":[1]}"#,
        );
        check(
            json!({"a": 5, "tools": [2], "messages": []}),
            r#"{"a":5,"tools":[1,2],"messages":[]}"#,
        );
        check(
            json!({"tools": {}, "a": {"x": {"tools": 1}}}),
            r#"{"a":{"x":{"y":1,"z":[1],"tools":1}},"tools":{},"messages":[1]}"#,
        );
    }

    #[test]
    fn write_json_rejects_extra_that_is_not_an_object() {
        for extra in [json!([]), json!("x"), json!(1)] {
            let error = write_json(Some(&extra), |_| Ok(())).unwrap_err();
            assert_eq!(
                error.to_string(),
                "invalid request: `extra` must be a JSON object: its fields are merged into the request"
            );
        }
    }

    #[test]
    fn shortest_number_has_no_excess_digits() {
        for number in [0.0, 0.7, 1.0, 0.1, 1.5e-5, 2.0] {
            let json = serde_json::to_value(Shortest(number)).unwrap();
            assert_eq!(json.as_f64().unwrap().to_string(), number.to_string());
        }
    }

    #[test]
    fn nan_and_infinity_are_rejected() {
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = write_json(None, |fields| fields.entry("t", &Shortest(number)));
            let text = format!("invalid request: cannot be written: JSON has no number {number}");
            assert_eq!(error.unwrap_err().to_string(), text);
        }
    }

    /// `write_json` must reject `stream` in `extra`. Otherwise the server would send a stream to a caller that expects
    /// a whole response.
    #[test]
    fn write_json_rejects_stream_in_extra() {
        let extra = json!({"stream": true});
        assert_eq!(
            write_json(Some(&extra), |_| Ok(())).unwrap_err().to_string(),
            "invalid request: `extra` cannot set `stream`: call complete or complete_stream"
        );
    }
}
