//! The rules for tool definitions and the choice among them.

use std::collections::HashSet;

use serde_json::Value;

use super::ApiError;
use super::cache::check_cache_control;
use super::object::{Object, check_name, expected, invalid, unknown_tag};

/// Tools that the vendor defines, by the beginning of their type. Their fields are not checked.
const TYPED: &[&str] = &[
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

/// As [`TYPED`], with a beta.
const TYPED_BETA: &[&str] = &["mcp_toolset", "advisor_"];

const REQUIRED: &[&str] = &["name", "input_schema"];
const OPTIONAL: &[&str] = &[
    "type",
    "description",
    "cache_control",
    "strict",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
    "allowed_callers",
];

pub(super) fn check_tools(body: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let tools = body.list("tools")?;
    let mut names = HashSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let tool = Object::new(&format!("tools.{index}"), tool)?;
        check_tool(&tool, betas)?;
        if let Some(name) = tool.get("name").and_then(Value::as_str)
            && !names.insert(name)
        {
            return Err(invalid("tools: Tool names must be unique."));
        }
    }
    check_choice(body, tools.is_empty(), &names)
}

fn check_tool(tool: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let begins_with = |kind: &str, list: &[&str]| list.iter().any(|start| kind.starts_with(start));
    match tool.get("type").map(|kind| kind.as_str().unwrap_or("")) {
        None | Some("custom") => check_custom(&tool.of_kind("custom")),
        Some(kind) if begins_with(kind, TYPED) => tool.text("name").map(drop),
        Some(kind) if begins_with(kind, TYPED_BETA) && !betas.is_empty() => Ok(()),
        Some(kind) => {
            Err(unknown_tag(tool.path(), kind, ["custom"].into_iter().chain(TYPED.iter().copied())))
        }
    }
}

fn check_custom(tool: &Object<'_>) -> Result<(), ApiError> {
    for key in REQUIRED {
        tool.required(key)?;
    }
    tool.only(&[REQUIRED, OPTIONAL])?;
    check_name(&tool.path_of("name"), tool.text("name")?, 128)?;
    check_cache_control(tool)?;
    if let Some(description) = tool.get("description")
        && !description.is_string()
    {
        return Err(invalid(format!(
            "{}: Input should be a valid string",
            tool.path_of("description")
        )));
    }
    let path = tool.path_of("input_schema");
    let schema = Object::new(&path, tool.required("input_schema")?)?;
    if schema.text("type")? != "object" {
        return Err(expected(&schema.path_of("type"), &["object"]));
    }
    if ["oneOf", "allOf", "anyOf"].iter().any(|key| schema.get(key).is_some()) {
        return Err(invalid(format!(
            "{path}: input_schema does not support oneOf, allOf, or anyOf at the top level"
        )));
    }
    Ok(())
}

fn check_choice(body: &Object<'_>, no_tools: bool, names: &HashSet<&str>) -> Result<(), ApiError> {
    let Some(choice) = body.object("tool_choice")? else {
        return Ok(());
    };
    let kind = choice.text("type")?;
    let allowed: &[&str] = match kind {
        "auto" | "any" => &["type", "disable_parallel_tool_use"],
        "tool" => &["type", "name", "disable_parallel_tool_use"],
        "none" => &["type"],
        other => {
            let kinds = ["auto", "any", "tool", "none"];
            return Err(unknown_tag("tool_choice", other, kinds.into_iter()));
        }
    };
    choice.of_kind(kind).only(&[allowed])?;
    if no_tools {
        return Err(invalid(
            "tool_choice: tool_choice may only be specified while providing tools",
        ));
    }
    let thinks = body
        .object("thinking")?
        .and_then(|thinking| thinking.get("type"))
        .is_some_and(|kind| kind == "enabled" || kind == "adaptive");
    if thinks && matches!(kind, "any" | "tool") {
        return Err(invalid("Thinking may not be enabled when tool_choice forces tool use."));
    }
    if kind == "tool" {
        let name = choice.of_kind(kind).text("name")?;
        if !names.contains(name) {
            return Err(invalid(format!("Tool '{name}' not found in provided tools")));
        }
    }
    Ok(())
}
