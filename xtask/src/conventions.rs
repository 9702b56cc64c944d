//! `cargo xtask conventions FOLDER`: the facts that the tests of `neuron-otel` hold telemetry against.
//!
//! OpenTelemetry publishes its conventions as YAML (<https://github.com/open-telemetry/semantic-conventions>,
//! folder `model`, Apache-2.0). The tests need names, types, levels, instruments and units, no prose: those
//! are taken out of a folder of such files and written as JSON. The folder's name ends with the version, as
//! an unpacked release's does. Only files of the form up to 1.41 are read: `groups` with `extends`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use saphyr::{LoadableYamlNode, Yaml};
use serde_json::{Value, json};

use crate::process;

const SOURCE: &str =
    "facts from https://github.com/open-telemetry/semantic-conventions, Apache-2.0";

/// The attributes whose definitions are taken: whole namespaces, so that an invented name is seen.
const NAMESPACES: [&str; 4] = ["gen_ai.", "mcp.", "jsonrpc.", "openai."];

/// The spans that the crates emit, and what vendors' conventions add to them.
const SPANS: [&str; 8] = [
    "gen_ai.inference.client",
    "anthropic.inference.client",
    "openai.inference.client",
    "gen_ai.embeddings.client",
    "gen_ai.invoke_agent.internal",
    "gen_ai.execute_tool.internal",
    "mcp.client",
    "mcp.server",
];

/// How the names of metrics begin that the crates could emit.
const METRICS: [&str; 2] = ["gen_ai.client.", "mcp."];

/// Reads the definitions of a folder and writes their facts to where the tests read them.
pub(crate) fn write(folder: &str) -> Result<(), String> {
    let folder = Path::new(folder);
    let version = version(folder)?;
    let mut groups = Groups::default();
    read_folder(folder, &mut groups)?;
    let file =
        process::root().join(format!("crates/neuron-otel/tests/it/conventions/{version}.json"));
    fs::write(&file, text(version, &groups)?)
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}

/// What follows the last hyphen of the folder's name.
fn version(folder: &Path) -> Result<&str, String> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.rsplit_once('-') {
        Some((_, version)) if version.starts_with(|first: char| first.is_ascii_digit()) => {
            Ok(version)
        }
        _ => Err(format!("`{name}` does not end with a version, as `…-1.41.0` does")),
    }
}

/// All groups of the files, by their ids.
#[derive(Debug, Default)]
struct Groups(BTreeMap<String, Group>);

/// A group: attributes, perhaps of a span or a metric, perhaps over those of another group.
#[derive(Debug, Default)]
struct Group {
    extends: Option<String>,
    /// Definitions, by name.
    definitions: BTreeMap<String, Value>,
    /// References with their levels, in order; none if a reference leaves it as it is.
    references: Vec<(String, Option<String>)>,
    kind: Option<String>,
    metric: Option<Metric>,
}

#[derive(Debug)]
struct Metric {
    name: String,
    instrument: String,
    unit: String,
    value_type: Option<String>,
}

fn read_folder(folder: &Path, groups: &mut Groups) -> Result<(), String> {
    let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            read_folder(&path, groups)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            read(&text, groups).map_err(|reason| format!("{}: {reason}", path.display()))?;
        }
    }
    Ok(())
}

fn read(text: &str, groups: &mut Groups) -> Result<(), String> {
    let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    for document in &documents {
        for yaml in items(document, "groups") {
            let id = string(yaml, "id").ok_or("a group without an id")?;
            if groups.0.insert(id.to_owned(), group(yaml, id)?).is_some() {
                return Err(format!("the group `{id}` is there twice"));
            }
        }
    }
    Ok(())
}

fn group(yaml: &Yaml<'_>, id: &str) -> Result<Group, String> {
    let mut group = Group {
        extends: string(yaml, "extends").map(str::to_owned),
        kind: string(yaml, "span_kind").map(str::to_owned),
        metric: metric(yaml),
        ..Group::default()
    };
    for attribute in items(yaml, "attributes") {
        // What is deprecated is not to be emitted: for the tests it does not exist.
        if attribute.as_mapping_get("deprecated").is_some() {
            continue;
        }
        match (string(attribute, "id"), string(attribute, "ref")) {
            (Some(name), _) => {
                group.definitions.insert(name.to_owned(), definition(attribute));
            }
            (None, Some(name)) => group.references.push((name.to_owned(), level(attribute))),
            (None, None) => return Err(format!("`{id}` has an attribute without a name")),
        }
    }
    Ok(group)
}

fn metric(yaml: &Yaml<'_>) -> Option<Metric> {
    let value_type = yaml
        .as_mapping_get("annotations")
        .and_then(|annotations| annotations.as_mapping_get("code_generation"))
        .and_then(|generation| string(generation, "metric_value_type"));
    Some(Metric {
        name: string(yaml, "metric_name")?.to_owned(),
        instrument: string(yaml, "instrument")?.to_owned(),
        unit: string(yaml, "unit")?.to_owned(),
        value_type: value_type.map(str::to_owned),
    })
}

/// The type of an attribute, and the values that it has if those are listed.
fn definition(attribute: &Yaml<'_>) -> Value {
    let Some(kind) = attribute.as_mapping_get("type") else {
        return json!({"type": "string"});
    };
    match kind.as_str() {
        Some(kind) => json!({"type": kind}),
        None => {
            let members: Vec<&str> = items(kind, "members")
                .filter(|member| member.as_mapping_get("deprecated").is_none())
                .filter_map(|member| string(member, "value"))
                .collect();
            json!({"type": "string", "members": members})
        }
    }
}

/// `required`, or the key of `conditionally_required: when …`.
fn level(attribute: &Yaml<'_>) -> Option<String> {
    let level = attribute.as_mapping_get("requirement_level")?;
    match level.as_str() {
        Some(level) => Some(level.to_owned()),
        None => level.as_mapping()?.keys().next()?.as_str().map(str::to_owned),
    }
}

fn string<'a>(yaml: &'a Yaml<'_>, key: &str) -> Option<&'a str> {
    yaml.as_mapping_get(key)?.as_str()
}

fn items<'a, 'input>(
    yaml: &'a Yaml<'input>,
    key: &str,
) -> impl Iterator<Item = &'a Yaml<'input>> + use<'a, 'input> {
    yaml.as_mapping_get(key).and_then(Yaml::as_sequence).into_iter().flatten()
}

impl Groups {
    /// The attributes of a group with their levels, those of what it extends below its own.
    fn attributes(&self, id: &str) -> Result<BTreeMap<String, String>, String> {
        let group = self.0.get(id).ok_or_else(|| format!("no group `{id}`"))?;
        let mut attributes = match &group.extends {
            Some(base) if base == id => return Err(format!("`{id}` extends itself")),
            Some(base) => self.attributes(base)?,
            None => BTreeMap::new(),
        };
        for (name, level) in &group.references {
            let own = level.clone().or_else(|| attributes.get(name).cloned());
            attributes.insert(name.clone(), own.unwrap_or_else(|| "recommended".to_owned()));
        }
        Ok(attributes)
    }

    /// The definitions of the namespaces that count.
    fn definitions(&self) -> BTreeMap<&str, &Value> {
        let all = self.0.values().flat_map(|group| &group.definitions);
        let counts = |name: &str| NAMESPACES.iter().any(|space| name.starts_with(space));
        all.filter(|(name, _)| counts(name)).map(|(name, value)| (name.as_str(), value)).collect()
    }

    fn spans(&self) -> Result<BTreeMap<&'static str, Value>, String> {
        let span = |id: &'static str| {
            let group = format!("span.{id}");
            let attributes = self.attributes(&group)?;
            let kind = self.0.get(&group).and_then(|group| group.kind.as_deref());
            Ok((id, json!({"kind": kind, "attributes": attributes})))
        };
        SPANS.into_iter().map(span).collect()
    }

    fn metrics(&self) -> Result<BTreeMap<&str, Value>, String> {
        let mut metrics = BTreeMap::new();
        for (id, group) in &self.0 {
            let Some(metric) = &group.metric else { continue };
            if METRICS.iter().any(|start| metric.name.starts_with(start)) {
                let facts = json!({
                    "instrument": metric.instrument,
                    "unit": metric.unit,
                    "value_type": metric.value_type,
                    "attributes": self.attributes(id)?,
                });
                metrics.insert(metric.name.as_str(), facts);
            }
        }
        Ok(metrics)
    }
}

/// The file: one line for each attribute, span and metric.
fn text(version: &str, groups: &Groups) -> Result<String, String> {
    let mut text = format!("{{\n\"version\": \"{version}\",\n\"source\": \"{SOURCE}\"");
    section(&mut text, "attributes", groups.definitions());
    section(&mut text, "spans", groups.spans()?);
    section(&mut text, "metrics", groups.metrics()?);
    text.push_str("\n}\n");
    Ok(text)
}

fn section(text: &mut String, title: &str, entries: BTreeMap<&str, impl std::fmt::Display>) {
    let _ = write!(text, ",\n\"{title}\": {{");
    for (index, (name, facts)) in entries.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}\n\"{name}\": {facts}");
    }
    text.push_str("\n}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(text: &str) -> Groups {
        let mut groups = Groups::default();
        read(text, &mut groups).unwrap();
        groups
    }

    #[test]
    fn what_a_group_extends_lies_below_its_own() {
        let groups = groups(
            "groups:
              - id: base
                attributes:
                  - ref: a
                    requirement_level: required
                  - ref: b
                    requirement_level:
                      conditionally_required: sometimes
                  - ref: c
              - id: upper
                extends: base
                attributes:
                  - ref: a
                    note: another note
                  - ref: b
                    requirement_level: opt_in
                  - ref: d
                    requirement_level:
                      recommended: when it is there
            ",
        );
        let attributes = groups.attributes("upper").unwrap();
        let expected =
            [("a", "required"), ("b", "opt_in"), ("c", "recommended"), ("d", "recommended")];
        let expected = expected.map(|(name, level)| (name.to_owned(), level.to_owned()));
        assert_eq!(attributes, BTreeMap::from(expected));
    }

    #[test]
    fn what_is_deprecated_does_not_exist() {
        let groups = groups(
            "groups:
              - id: registry
                attributes:
                  - id: gen_ai.old
                    type: string
                    deprecated: {reason: obsoleted}
                  - id: gen_ai.kind
                    type:
                      members:
                        - {id: one, value: \"one\"}
                        - {id: two, value: \"two\", deprecated: {reason: renamed}}
                  - id: gen_ai.list
                    type: string[]
                  - id: other.name
                    type: int
            ",
        );
        let definitions = serde_json::to_value(groups.definitions()).unwrap();
        let expected = json!({
            "gen_ai.kind": {"type": "string", "members": ["one"]},
            "gen_ai.list": {"type": "string[]"},
        });
        assert_eq!(definitions, expected);
    }

    #[test]
    fn faulty_definitions_are_told() {
        let unknown = groups("groups: [{id: a, extends: b}]").attributes("a");
        assert_eq!(unknown, Err("no group `b`".to_owned()));
        let itself = groups("groups: [{id: a, extends: a}]").attributes("a");
        assert_eq!(itself, Err("`a` extends itself".to_owned()));
        let twice = read("groups: [{id: a}, {id: a}]", &mut Groups::default());
        assert_eq!(twice, Err("the group `a` is there twice".to_owned()));
        let nameless = read("groups: [{id: a, attributes: [{type: int}]}]", &mut Groups::default());
        assert_eq!(nameless, Err("`a` has an attribute without a name".to_owned()));
        assert!(read("groups: [", &mut Groups::default()).is_err());
    }

    #[test]
    fn the_version_is_the_end_of_the_folder_s_name() {
        assert_eq!(version(Path::new("/tmp/semantic-conventions-1.41.0")), Ok("1.41.0"));
        assert!(version(Path::new("/tmp/semantic-conventions")).is_err());
        assert!(version(Path::new("model")).is_err());
    }
}
