//! OpenAI's rules for tool definitions and `tool_choice`, in the formats of both APIs.

use serde_json::Value;

use super::ApiError;
use super::schema::{check_object_schema, check_strict};
use super::wording::{Object, refused};
use crate::shape::{Problem, Wording, words};

/// The JSON nesting of a tool definition or tool choice. Chat Completions and the Responses API differ in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The fields are nested under the name of the kind, such as `function`. Chat Completions uses this shape.
    Nested,
    /// The fields are in the tool itself. The Responses API uses this shape.
    Flat,
}

/// Checks the tool definitions of a request and its `tool_choice`.
///
/// The Responses API rejects a tool in the format of Chat Completions, because such a tool has no `name` at its top
/// level. In the Responses API, a function requires `parameters` and `strict`, according to the types of OpenAI's SDK.
/// Both may be null.
pub(super) fn check_tools(body: &Object<'_>, shape: Shape) -> Result<(), ApiError> {
    let list = match shape {
        Shape::Nested => "nonempty list up to 128 of tagged chat_tool",
        Shape::Flat => "list up to 128 of tagged tool",
    };
    body.check("tools", list)?;
    let tools = body.objects("tools");
    for tool in &tools {
        match tool.str("type") {
            Some("function") => check_function(&defined(tool, "function", shape)?)?,
            Some(kind) => drop(defined(tool, kind, shape)?),
            None => {}
        }
    }
    // The Responses API accepts the defaults of these parameters without tools.
    if tools.is_empty() && shape == Shape::Nested {
        for key in ["tool_choice", "parallel_tool_calls"] {
            if body.has(key) {
                let what = "is only allowed when 'tools' are specified.";
                let text = format!("Invalid value for '{key}': '{key}' {what}");
                return Err(refused(key, text));
            }
        }
    }
    if shape == Shape::Flat {
        check_search(&tools)?;
    }
    check_choice(body, &tools, shape)
}

/// Checks that a search on OpenAI's server has a deferred tool. A namespace counts if one of its functions is deferred.
///
/// <https://developers.openai.com/api/docs/guides/tools-tool-search>
fn check_search(tools: &[Object<'_>]) -> Result<(), ApiError> {
    let is_search = |tool: &Object<'_>| {
        tool.str("type") == Some("tool_search") && tool.str("execution") != Some("client")
    };
    let is_deferred = |tool: &Object<'_>| tool.is_true("defer_loading");
    let has_deferred =
        |tool: &Object<'_>| is_deferred(tool) || tool.objects("tools").iter().any(is_deferred);
    if tools.iter().any(is_search) && !tools.iter().any(has_deferred) {
        let text = "Invalid Value: 'tools.tool_search'. tools.tool_search requires at least one \
                    deferred tool.";
        return Err(refused("tools", text).code("invalid_value"));
    }
    Ok(())
}

/// Returns the object that contains the fields of a tool or a tool choice. With [`Shape::Nested`] this is the field
/// `kind`, and a missing field is an error. With [`Shape::Flat`] this is `tool` itself.
fn defined<'a>(tool: &Object<'a>, kind: &str, shape: Shape) -> Result<Object<'a>, ApiError> {
    match shape {
        Shape::Nested => tool.object(kind).ok_or_else(|| tool.error(kind, Problem::Missing)),
        Shape::Flat => Ok(tool.clone()),
    }
}

/// Checks the argument schema of a function, including the rules for strict schemas if the function is strict.
fn check_function(function: &Object<'_>) -> Result<(), ApiError> {
    let Some(schema) = function.get("parameters") else { return Ok(()) };
    let subject = format!("function '{}'", function.str("name").unwrap_or_default());
    let mut checked = check_object_schema(schema, &subject);
    if function.is_true("strict") {
        checked = checked.and_then(|()| check_strict(schema, &subject, &[]));
    }
    let path = function.at("parameters");
    checked.map_err(|text| refused(&path, text).code("invalid_function_parameters"))
}

/// Checks `tool_choice`, and that the tool that it names is defined.
fn check_choice(body: &Object<'_>, tools: &[Object<'_>], shape: Shape) -> Result<(), ApiError> {
    if let Some(Value::String(_)) = body.get("tool_choice") {
        return body.check("tool_choice", "one of none auto required");
    }
    body.check("tool_choice", "object")?;
    let Some(choice) = body.object("tool_choice") else { return Ok(()) };
    let kind = choice.text("type")?;
    let built_in = body.vendor.shape("tool");
    if shape == Shape::Flat && words(built_in, "unchecked").any(|known| known == kind) {
        return Ok(());
    }
    choice.tagged(if shape == Shape::Flat { "choice" } else { "chat_choice" }, "type")?;
    if kind == "allowed_tools" {
        return Ok(());
    }
    let name = defined(&choice, kind, shape)?.str("name").unwrap_or_default();
    let has_name =
        |tool| defined(tool, kind, shape).is_ok_and(|tool| tool.str("name") == Some(name));
    let text = format!("Tool choice '{kind}' '{name}' not found in 'tools' parameter.");
    if tools.iter().any(has_name) { Ok(()) } else { Err(refused("tool_choice", text)) }
}
