//! Bedrock's rules for tools and for the choice of a tool.

use std::collections::HashSet;

use serde_json::Value;

use super::ApiError;
use super::wording::{Object, invalid, of_the_model};
use crate::bedrock::route::Family;
use crate::shape::Problem;

/// Checks every tool, that the names are unique, and the choice of a tool.
pub(super) fn check_tools(body: &Object<'_>, family: Family) -> Result<(), ApiError> {
    let Some(config) = body.object("toolConfig") else { return Ok(()) };
    let mut names = HashSet::new();
    for tool in config.objects("tools") {
        if let Some(spec) = tool.object("toolSpec") {
            check_spec(&spec)?;
        }
        let name = ["toolSpec", "systemTool"].iter().find_map(|key| tool.object(key)?.str("name"));
        if let Some(name) = name
            && !names.insert(name)
        {
            return Err(invalid(format!(
                "The tool {name} is already defined at {}.",
                config.at("tools")
            )));
        }
    }
    if names.is_empty() {
        return Err(invalid("The toolConfig field must have at least one tool."));
    }
    match config.object("toolChoice") {
        Some(choice) => check_choice(&choice, &names, family),
        None => Ok(()),
    }
}

/// Checks the description and the schema of a tool.
fn check_spec(spec: &Object<'_>) -> Result<(), ApiError> {
    if spec.str("description").is_some_and(str::is_empty) {
        return Err(spec.error("description", Problem::Empty { is_list: false }));
    }
    let schema = spec.object("inputSchema").and_then(|schema| schema.object("json"));
    let Some(schema) = schema else { return Ok(()) };
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => Ok(()),
        _ => Err(invalid(format!(
            "The value at {} must be one of the following: object.",
            schema.at("type")
        ))),
    }
}

/// Checks that the model has this kind of choice, and that a chosen tool exists.
fn check_choice(
    choice: &Object<'_>,
    names: &HashSet<&str>,
    family: Family,
) -> Result<(), ApiError> {
    let kind = ["auto", "any", "tool"].into_iter().find(|key| choice.has(key)).unwrap_or_default();
    if !family.has_choice(kind) {
        let field = choice.at(kind);
        return Err(invalid(format!(
            "This model doesn't support the {field} field. Remove {field} and try again."
        )));
    }
    let name = choice.object("tool").and_then(|tool| tool.str("name"));
    match name.filter(|name| !names.contains(name)) {
        Some(name) => Err(of_the_model(&format!("Tool '{name}' not found in provided tools"))),
        None => Ok(()),
    }
}
