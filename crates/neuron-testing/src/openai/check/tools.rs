//! The rules for tool definitions and the choice among them, in the shapes of both APIs.

use serde_json::Value;

use super::ApiError;
use super::object::{Object, check_length, check_name, empty_array, invalid_value, missing};
use super::schema::{check_object_schema, check_strict_schema};

/// Where a function's fields are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Under `function`: Chat Completions.
    Nested,
    /// In the tool itself: Responses.
    Flat,
}

const CHAT: &[&str] = &["function", "custom"];

/// Tools of the Responses API whose fields are not checked.
const BUILT_IN: &[&str] = &[
    "file_search",
    "computer",
    "computer_use_preview",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
    "mcp",
    "code_interpreter",
    "programmatic_tool_calling",
    "image_generation",
    "local_shell",
    "shell",
    "namespace",
    "tool_search",
    "apply_patch",
];

pub(super) fn check_tools(body: &Object<'_>, shape: Shape) -> Result<(), ApiError> {
    let list = body.list("tools")?;
    match list {
        Some([]) if shape == Shape::Nested => return Err(empty_array("tools")),
        Some(list) => check_length("tools", list, 128)?,
        None => {}
    }
    let tools = body.objects("tools")?;
    for tool in &tools {
        check_tool(tool, shape)?;
    }
    if list.is_none_or(<[Value]>::is_empty) {
        for key in ["tool_choice", "parallel_tool_calls"] {
            // The Responses API takes its defaults without tools.
            if body.get(key).is_some() && shape == Shape::Nested {
                return Err(ApiError::invalid_request(format!(
                    "Invalid value for '{key}': '{key}' is only allowed when 'tools' are \
                     specified."
                ))
                .param(key));
            }
        }
    }
    body.boolean("parallel_tool_calls")?;
    check_choice(body, &tools, shape)
}

fn check_tool(tool: &Object<'_>, shape: Shape) -> Result<(), ApiError> {
    let kind = tool.text("type")?;
    match (kind, shape) {
        ("function", Shape::Nested) => {
            tool.only(&[&["type", "function"]])?;
            let Some(function) = tool.object("function")? else {
                return Err(missing(&tool.path_of("function")));
            };
            function.only(&[&["name", "description", "parameters", "strict"]])?;
            check_function(&function)
        }
        ("function", Shape::Flat) => {
            // Before what else is wrong: this is what a tool in the other shape is told.
            tool.text("name")?;
            tool.only(&[&[
                "type",
                "name",
                "description",
                "parameters",
                "strict",
                "allowed_callers",
                "async",
                "defer_loading",
                "output_schema",
            ]])?;
            // The SDK's types want both, as null if need be.
            for key in ["parameters", "strict"] {
                if !tool.has(key) {
                    return Err(missing(&tool.path_of(key)));
                }
            }
            check_function(tool)
        }
        ("custom", Shape::Nested) => {
            let Some(custom) = tool.object("custom")? else {
                return Err(missing(&tool.path_of("custom")));
            };
            check_name(&custom.path_of("name"), custom.text("name")?, 64)
        }
        ("custom", Shape::Flat) => check_name(&tool.path_of("name"), tool.text("name")?, 128),
        (kind, Shape::Flat) if BUILT_IN.contains(&kind) => Ok(()),
        (kind, Shape::Nested) => Err(invalid_value(&tool.path_of("type"), kind, CHAT)),
        (kind, Shape::Flat) => {
            let all = [CHAT, BUILT_IN].concat();
            Err(invalid_value(&tool.path_of("type"), kind, &all))
        }
    }
}

fn check_function(function: &Object<'_>) -> Result<(), ApiError> {
    let name = function.text("name")?;
    check_name(&function.path_of("name"), name, 64)?;
    function.optional_text("description")?;
    let strict = function.boolean("strict")?;
    let Some(schema) = function.get("parameters") else {
        return Ok(());
    };
    let path = function.path_of("parameters");
    function.child(&path, schema)?;
    let subject = format!("function '{name}'");
    check_object_schema(schema, &subject)
        .and_then(|()| match strict {
            Some(true) => check_strict_schema(schema, &subject),
            _ => Ok(()),
        })
        .map_err(|message| {
            ApiError::invalid_request(message).param(path).code("invalid_function_parameters")
        })
}

fn check_choice(body: &Object<'_>, tools: &[Object<'_>], shape: Shape) -> Result<(), ApiError> {
    let choice = match body.get("tool_choice") {
        None => return Ok(()),
        Some(Value::String(word)) => {
            let words = ["none", "auto", "required"];
            return match words.contains(&word.as_str()) {
                true => Ok(()),
                false => Err(invalid_value("tool_choice", word, &words)),
            };
        }
        Some(choice) => body.child("tool_choice", choice)?,
    };
    let kind = choice.text("type")?;
    let name = match (kind, shape) {
        ("function" | "custom", Shape::Nested) => {
            choice.only(&[&["type", kind]])?;
            let Some(named) = choice.object(kind)? else {
                return Err(missing(&choice.path_of(kind)));
            };
            named.only(&[&["name"]])?;
            named.text("name")?
        }
        ("function" | "custom", Shape::Flat) => {
            let name = choice.text("name")?;
            choice.only(&[&["type", "name"]])?;
            name
        }
        ("allowed_tools", Shape::Nested) => {
            let allowed = choice.object("allowed_tools")?;
            let Some(allowed) = allowed else {
                return Err(missing(&choice.path_of("allowed_tools")));
            };
            return check_allowed(&allowed);
        }
        ("allowed_tools", Shape::Flat) => return check_allowed(&choice),
        (kind, Shape::Flat) if BUILT_IN.contains(&kind) => return Ok(()),
        (kind, _) => {
            let kinds = ["function", "allowed_tools", "custom"];
            return Err(invalid_value("tool_choice.type", kind, &kinds));
        }
    };
    let defined = tools.iter().any(|tool| {
        let function = tool.get(kind).and_then(|function| function.get("name"));
        let found = if shape == Shape::Nested { function } else { tool.get("name") };
        found.is_some_and(|found| found == name)
    });
    if defined {
        return Ok(());
    }
    Err(ApiError::invalid_request(format!(
        "Tool choice '{kind}' '{name}' not found in 'tools' parameter."
    ))
    .param("tool_choice"))
}

fn check_allowed(allowed: &Object<'_>) -> Result<(), ApiError> {
    allowed.required("mode")?;
    allowed.one_of("mode", &["auto", "required"])?;
    allowed.required("tools")?;
    allowed.objects("tools").map(drop)
}
