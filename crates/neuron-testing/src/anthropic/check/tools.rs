//! Anthropic's rules for tool definitions, `tool_choice` and references to tools.

use std::collections::HashSet;

use super::ApiError;
use super::wording::{Object, Wording, invalid};
use crate::shape::{Problem, Wording as _, words};

/// Checks every tool definition, that the names are unique, and `tool_choice`.
pub(super) fn check_tools(body: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let tools = body.objects("tools");
    let mut names = HashSet::new();
    for tool in &tools {
        check_tool(tool, betas)?;
        if tool.str("name").is_some_and(|name| !names.insert(name)) {
            return Err(invalid("tools: Tool names must be unique."));
        }
    }
    check_deferred(&tools)?;
    check_references(body, &tools, &names)?;
    check_choice(body, &names)
}

/// Checks that no deferred tool has a cache breakpoint, and that at least one tool is not deferred.
///
/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool>
fn check_deferred(tools: &[Object<'_>]) -> Result<(), ApiError> {
    let deferred = || tools.iter().filter(|tool| tool.is_true("defer_loading"));
    if let Some(tool) = deferred().find(|tool| tool.has("cache_control")) {
        let name = tool.str("name").unwrap_or_default();
        return Err(invalid(format!(
            "Tool '{name}' cannot have both defer_loading=true and cache_control set. Tools with \
             defer_loading cannot use prompt caching."
        )));
    }
    match !tools.is_empty() && deferred().count() == tools.len() {
        true => Err(invalid(
            "All tools have defer_loading set. At least one tool must be non-deferred.",
        )),
        false => Ok(()),
    }
}

/// Checks that each `tool_reference` in the conversation names a tool of the request. The names of tools of an MCP server
/// are not in the request, so with such a server every name is accepted.
fn check_references(
    body: &Object<'_>,
    tools: &[Object<'_>],
    names: &HashSet<&str>,
) -> Result<(), ApiError> {
    if tools.iter().any(|tool| tool.str("type") == Some("mcp_toolset")) {
        return Ok(());
    }
    for block in body.objects("messages").iter().flat_map(|message| message.objects("content")) {
        let found = block.object("content").map(|found| found.objects("tool_references"));
        for reference in found.unwrap_or_else(|| block.objects("content")) {
            let name = reference.str("tool_name").unwrap_or_default();
            if reference.str("type") == Some("tool_reference") && !names.contains(name) {
                let text = format!("Tool reference '{name}' not found in available tools");
                return Err(invalid(text));
            }
        }
    }
    Ok(())
}

/// Checks a tool definition. A tool that Anthropic defines needs only a name, and its other fields are not checked.
///
/// The type of such a tool ends with a date. `shapes.json` lists only the part before the date, so types are compared
/// by prefix.
fn check_tool(tool: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let kind = tool.get("type").map_or("custom", |kind| kind.as_str().unwrap_or_default());
    let is_listed =
        |list| words(Wording.shape("places"), list).any(|prefix| kind.starts_with(prefix));
    match kind {
        // Anthropic's errors have `custom` in the path of a caller's tool.
        "custom" => check_custom(&Object { path: tool.at("custom"), ..tool.clone() }),
        _ if is_listed("tools") => tool.text("name").map(drop),
        _ if is_listed("beta_tools") && !betas.is_empty() => Ok(()),
        found => {
            let typed = words(Wording.shape("places"), "tools");
            let tags: Vec<&str> = std::iter::once("custom").chain(typed).collect();
            Err(Wording.error(&tool.path, Problem::Tag { key: "type", tags: &tags, found }))
        }
    }
}

/// Checks a tool that the caller defines, including the top level of its input schema.
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

/// Checks that `tool_choice` names an existing tool and does not force a tool call together with thinking.
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
