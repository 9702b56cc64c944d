//! Received attributes, with access by name.

use std::collections::BTreeMap;
use std::fmt;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

/// The attributes of a span, of an event or of a metric point.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Attributes(BTreeMap<String, AnyValue>);

impl Attributes {
    /// Creates the attributes. If several have the same name, the last is used.
    pub(crate) fn new(attributes: &[KeyValue]) -> Self {
        let pair = |attribute: &KeyValue| {
            (attribute.key.clone(), attribute.value.clone().unwrap_or_default())
        };
        Self(attributes.iter().map(pair).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Option<&Value>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.value.as_ref()))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)?.value.as_ref()
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::StringValue(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::IntValue(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn double(&self, name: &str) -> Option<f64> {
        match self.get(name)? {
            Value::DoubleValue(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn bool(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            Value::BoolValue(is) => Some(*is),
            _ => None,
        }
    }

    /// Returns an attribute that is a list of strings, or `None` if there is no such attribute.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<&str>> {
        let Value::ArrayValue(list) = self.get(name)? else { return None };
        list.values
            .iter()
            .map(|value| match &value.value {
                Some(Value::StringValue(text)) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Returns the JSON of an attribute that is a JSON text, or `None` if there is no such attribute.
    pub(crate) fn json(&self, name: &str) -> Option<serde_json::Value> {
        serde_json::from_str(self.text(name)?).ok()
    }
}

/// Returns `true` for the name of an attribute that comes from neuron and not from the layer of
/// `tracing_opentelemetry`.
pub(crate) fn is_ours(name: &str) -> bool {
    let is_layer_s = ["code.", "thread."].iter().any(|space| name.starts_with(space))
        || ["busy_ns", "idle_ns", "target", "level"].contains(&name);
    !is_layer_s
}

/// Formats each attribute as `name=value`. Omits attributes that the layer of `tracing_opentelemetry` adds.
impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, value) in self.iter().filter(|(name, _)| is_ours(name)) {
            write!(f, "{separator}{name}={}", value.map(print).unwrap_or_default())?;
            separator = " ";
        }
        Ok(())
    }
}

fn print(value: &Value) -> String {
    match value {
        Value::StringValue(text) => format!("{text:?}"),
        Value::BoolValue(is) => is.to_string(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => format!("{number:?}"),
        Value::ArrayValue(list) => {
            let values: Vec<String> = list
                .values
                .iter()
                .map(|value| value.value.as_ref().map(print).unwrap_or_default())
                .collect();
            format!("[{}]", values.join(", "))
        }
        other => format!("{other:?}"),
    }
}
