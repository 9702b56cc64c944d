//! The rules for tool definitions and the choice among them.

use std::collections::HashSet;

use super::ApiError;
use super::wording::{Object, Wording, invalid};
use crate::shape::{Problem, Wording as _};

/// Prefixes of the types of tools that the vendor defines. Their fields are not checked.
const TYPED: [&str; 9] = [
    "web_search_",
    "web_fetch_",
    "code_execution_",
    "bash_",
    "text_editor_",
    "memory_",
    "computer_",
    "browser_toolset_",
    "tool_search_tool_",
];

/// Further prefixes, for requests with a beta.
const TYPED_BETA: [&str; 2] = ["mcp_toolset", "advisor_"];

pub(super) fn check_tools(body: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let tools = body.objects("tools");
    let mut names = HashSet::new();
    for tool in &tools {
        check_tool(tool, betas)?;
        if tool.str("name").is_some_and(|name| !names.insert(name)) {
            return Err(invalid("tools: Tool names must be unique."));
        }
    }
    check_choice(body, &names)
}

fn check_tool(tool: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let kind = tool.get("type").map(|kind| kind.as_str().unwrap_or_default());
    let begins_with = |prefixes: &[&str]| {
        kind.is_some_and(|kind| prefixes.iter().any(|prefix| kind.starts_with(prefix)))
    };
    match kind {
        None | Some("custom") => check_custom(&Object { path: tool.at("custom"), ..tool.clone() }),
        Some(_) if begins_with(&TYPED) => tool.text("name").map(drop),
        Some(_) if begins_with(&TYPED_BETA) && !betas.is_empty() => Ok(()),
        Some(found) => {
            let tags = [&["custom"], &TYPED[..]].concat();
            Err(Wording.error(&tool.path, Problem::Tag { key: "type", tags: &tags, found }))
        }
    }
}

fn check_custom(tool: &Object<'_>) -> Result<(), ApiError> {
    tool.fits("custom_tool")?;
    let schema = tool.object("input_schema");
    let has = |key: &str| schema.as_ref().is_some_and(|schema| schema.get(key).is_some());
    if ["oneOf", "allOf", "anyOf"].into_iter().any(has) {
        return Err(invalid(format!(
            "{}: input_schema does not support oneOf, allOf, or anyOf at the top level",
            tool.at("input_schema")
        )));
    }
    Ok(())
}

fn check_choice(body: &Object<'_>, names: &HashSet<&str>) -> Result<(), ApiError> {
    let Some(choice) = body.object("tool_choice") else { return Ok(()) };
    let kind = choice.text("type")?;
    if body.objects("tools").is_empty() {
        return Err(invalid(
            "tool_choice: tool_choice may only be specified while providing tools",
        ));
    }
    let thinking = body.object("thinking").and_then(|thinking| thinking.str("type"));
    if matches!(thinking, Some("enabled" | "adaptive")) && matches!(kind, "any" | "tool") {
        return Err(invalid("Thinking may not be enabled when tool_choice forces tool use."));
    }
    match choice.str("name") {
        Some(name) if kind == "tool" && !names.contains(name) => {
            Err(invalid(format!("Tool '{name}' not found in provided tools")))
        }
        _ => Ok(()),
    }
}
