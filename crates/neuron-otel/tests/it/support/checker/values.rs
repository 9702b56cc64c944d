//! Checks of the names of attributes and of the types of their values.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;

use super::Checker;
use crate::support::attributes::{Attributes, is_ours};
use crate::support::conventions::Conventions;

/// Attributes whose lists of values are not complete, because vendors and protocol methods are added over time.
const OPEN: [&str; 2] = ["gen_ai.provider.name", "mcp.method.name"];

impl Checker {
    /// Checks the names, the requirement levels and the types of attributes.
    pub(super) fn attributes(
        &self,
        attributes: &Attributes,
        levels: &BTreeMap<&str, &str>,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, value) in attributes.iter().filter(|(name, _)| is_judged(name)) {
            if self.conventions.type_of(name).is_none() {
                problems.push(format!("`{name}` is no attribute of the conventions"));
                continue;
            }
            match levels.get(name) {
                None => problems.push(format!("`{name}` is not in the definition")),
                Some(&"opt_in") if !self.content => {
                    problems.push(format!("`{name}` is there without being opted in to"));
                }
                Some(_) => {}
            }
            problems.extend(self.value(name, value));
        }
        for (name, level) in levels {
            if *level == "required" && !attributes.has(name) {
                problems.push(format!("`{name}` is missing"));
            }
        }
        if attributes.has("server.address") && !attributes.has("server.port") {
            problems.push("`server.port` is missing beside `server.address`".to_owned());
        }
        problems
    }

    /// Checks only the types of attributes, for a span that the conventions do not define.
    pub(super) fn known(&self, attributes: &Attributes) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, value) in attributes.iter() {
            if self.conventions.type_of(name).is_some() {
                problems.extend(self.value(name, value));
            } else if Conventions::owns(name) {
                problems.push(format!("`{name}` is no attribute of the conventions"));
            }
        }
        problems
    }

    fn value(&self, name: &str, value: Option<&Value>) -> Option<String> {
        let due = self.conventions.type_of(name)?;
        let Some(value) = value else {
            return Some(format!("`{name}` has no value"));
        };
        let is = type_name(value);
        let fits = match due {
            // A span may contain a structured value as JSON text.
            "any" => match value {
                Value::StringValue(text) => serde_json::from_str::<serde_json::Value>(text).is_ok(),
                Value::ArrayValue(_) | Value::KvlistValue(_) => true,
                _ => false,
            },
            due => due == is,
        };
        if !fits {
            return Some(format!("`{name}` is {is} where {due} is due"));
        }
        let Value::StringValue(text) = value else { return None };
        if text.is_empty() && is_a_name(name) {
            return Some(format!("`{name}` is empty"));
        }
        let members = self.conventions.members(name)?;
        let is_listed = OPEN.contains(&name) || members.contains(&text.as_str());
        (!is_listed).then(|| format!("`{name}` has no value {text:?}"))
    }
}

/// Returns a problem for each duplicate attribute name, which OTLP forbids.
pub(super) fn duplicates(attributes: &[KeyValue]) -> Vec<String> {
    let mut names: Vec<&str> = attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    names.sort_unstable();
    let pairs = names.windows(2).filter(|pair| pair[0] == pair[1]);
    pairs.map(|pair| format!("`{}` is there twice", pair[0])).collect()
}

/// Returns `true` if the conventions must define the attribute `name`. Returns `false` for attributes of the layer of
/// `tracing_opentelemetry`, and for names that begin with `neuron.`.
fn is_judged(name: &str) -> bool {
    is_ours(name) && !name.starts_with("neuron.")
}

/// Returns `true` if the value of the attribute `name` must not be empty. This holds for names, ids, models, types and
/// addresses.
fn is_a_name(name: &str) -> bool {
    [".id", ".name", ".model", ".type", ".address"].iter().any(|end| name.ends_with(end))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::StringValue(_) => "string",
        Value::BoolValue(_) => "boolean",
        Value::IntValue(_) => "int",
        Value::DoubleValue(_) => "double",
        Value::ArrayValue(list) => {
            let are_texts = |value: &_| matches!(value, Some(Value::StringValue(_)));
            if list.values.iter().all(|value| are_texts(&value.value)) {
                "string[]"
            } else {
                "a list"
            }
        }
        Value::KvlistValue(_) => "an object",
        Value::BytesValue(_) => "bytes",
        Value::StringValueStrindex(_) => "an index",
    }
}
