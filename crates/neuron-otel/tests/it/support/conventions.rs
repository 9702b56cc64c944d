//! The definitions of the conventions, read from `tests/it/conventions/`.
//!
//! `cargo xtask conventions` generates `1.41.0.json`. `latest.json` contains the changes since that version.
//! `prose.json` contains the rules that the conventions state only in words.

use serde_json::{Map, Value};

/// A version of OpenTelemetry's GenAI semantic conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1_41,
    Latest,
}

impl Version {
    pub(crate) const ALL: [Self; 2] = [Self::V1_41, Self::Latest];
}

/// All definitions in one version of OpenTelemetry's GenAI conventions.
#[derive(Debug)]
pub(crate) struct Conventions(Value);

impl Conventions {
    pub(crate) fn load(version: Version) -> Self {
        let mut all = parse(include_str!("../conventions/1.41.0.json"));
        if version == Version::Latest {
            merge_over(&mut all, parse(include_str!("../conventions/latest.json")));
        }
        merge_over(&mut all, parse(include_str!("../conventions/prose.json")));
        Self(all)
    }

    /// Returns the type of an attribute, or `None` if the attribute is not defined.
    pub(crate) fn type_of(&self, attribute: &str) -> Option<&str> {
        self.0["attributes"].get(attribute)?["type"].as_str()
    }

    /// Returns the listed values of an attribute, or `None` if the conventions list none.
    pub(crate) fn members(&self, attribute: &str) -> Option<Vec<&str>> {
        let members = self.0["attributes"].get(attribute)?.get("members")?.as_array()?;
        Some(members.iter().filter_map(Value::as_str).collect())
    }

    /// Returns `true` if the namespace of an attribute belongs to these conventions. The attribute must then be
    /// defined.
    pub(crate) fn owns(name: &str) -> bool {
        ["gen_ai.", "mcp.", "jsonrpc.", "openai."].iter().any(|space| name.starts_with(space))
    }

    /// Returns the kind of a span, which is `client`, `server` or `internal`.
    pub(crate) fn kind(&self, span: &str) -> &str {
        self.0["spans"][span]["kind"].as_str().expect("every span has a kind")
    }

    /// Returns the attributes of a span with their requirement levels. Returns an empty list if the span is not
    /// defined.
    pub(crate) fn span_attributes(&self, span: &str) -> Vec<(&str, &str)> {
        levels(&self.0["spans"][span])
    }

    /// Returns the patterns for the name of a span. The first pattern whose attributes are all present applies.
    pub(crate) fn names(&self, span: &str) -> Vec<&str> {
        let names = self.0["names"][span].as_array().expect("every span has a name");
        names.iter().filter_map(Value::as_str).collect()
    }

    /// Returns the definition of a metric, or `None` if the metric is not defined. The definition has the fields
    /// `instrument`, `unit`, `value_type` and `not_operations`.
    pub(crate) fn metric(&self, name: &str) -> Option<&Map<String, Value>> {
        self.0["metrics"].get(name)?.as_object()
    }

    /// Returns the attributes of a metric with their requirement levels.
    pub(crate) fn metric_attributes(&self, metric: &str) -> Vec<(&str, &str)> {
        levels(&self.0["metrics"][metric])
    }

    /// Returns the bucket boundaries of a histogram, or `None` if the conventions define none.
    pub(crate) fn buckets(&self, metric: &str) -> Option<Vec<f64>> {
        let buckets = self.0["buckets"].get(metric)?.as_array()?;
        Some(buckets.iter().filter_map(Value::as_f64).collect())
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the definitions are JSON")
}

fn levels(definition: &Value) -> Vec<(&str, &str)> {
    let attributes = definition["attributes"].as_object().into_iter().flatten();
    attributes.filter_map(|(name, level)| Some((name.as_str(), level.as_str()?))).collect()
}

/// Merges `above` into `below`. Objects are merged field by field. A null in `above` removes the field, and any other
/// value replaces the value in `below`.
fn merge_over(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                if value.is_null() {
                    below
                        .shift_remove(&key)
                        .unwrap_or_else(|| panic!("nothing to take away: {key}"));
                } else {
                    merge_over(below.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (below, above) => *below = above,
    }
}
