//! Gemini's rules for tools and for the choice of a function.

use std::collections::HashSet;

use serde_json::Value;

use super::schema::check_schema;
use super::wording::{Object, invalid, invalid_at, invalid_proto, invalid_value, snake_case};
use super::{ApiError, check_platform};
use crate::gemini::route::{Platform, Route};

/// Maximum number of function declarations of a request.
const MAX_FUNCTIONS: usize = 512;

/// Maximum length of a function name.
const MAX_NAME: usize = 128;

/// Checks every tool, that the names of functions are unique, and the choice of a function.
pub(super) fn check_tools(body: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    let mut names = HashSet::new();
    let mut has_other_tools = false;
    for tool in &body.objects("tools") {
        check_platform(tool, "tool", route)?;
        check_kinds(tool)?;
        has_other_tools |= !tool.has("functionDeclarations");
        for function in tool.objects("functionDeclarations") {
            check_function(&function)?;
            let name = function.str("name").unwrap_or_default();
            if !names.insert(name) {
                return Err(invalid(format!("Duplicate function declaration found: {name}")));
            }
        }
    }
    if names.len() > MAX_FUNCTIONS {
        let what = format!("at most {MAX_FUNCTIONS} function declarations are allowed.");
        return Err(invalid_at("tools", &what));
    }
    let config = body.object("toolConfig");
    let is_combined =
        config.as_ref().is_some_and(|config| config.is_true("includeServerSideToolInvocations"));
    if let Some(config) = &config {
        check_platform(config, "tool_config", route)?;
        check_choice(config, !names.is_empty() || is_combined, route)?;
    }
    if names.is_empty() || !has_other_tools {
        return Ok(());
    }
    match route.platform {
        _ if !route.has_signatures() => {
            Err(invalid("Tool use with function calling is unsupported"))
        }
        Platform::GoogleAi if !is_combined => Err(invalid(
            "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools \
             with Function calling.",
        )),
        _ => Ok(()),
    }
}

/// Checks that a tool has exactly one kind. An empty list of functions counts as no kind.
fn check_kinds(tool: &Object<'_>) -> Result<(), ApiError> {
    let is_empty = |(key, value): &(&String, &Value)| {
        let is_list = key.as_str() == "functionDeclarations";
        value.is_null() || is_list && value.as_array().is_some_and(Vec::is_empty)
    };
    let mut kinds = tool.fields.iter().filter(|field| !is_empty(field));
    match (kinds.next(), kinds.next()) {
        (None, _) => {
            let what = "required one_of 'tool_type' must have one initialized field";
            Err(invalid_proto(&tool.at("toolType"), what))
        }
        (Some(_), Some((second, _))) => {
            let second = snake_case(second);
            let what = format!("oneof field 'tool_type' is already set. Cannot set '{second}'");
            Err(invalid_value(&tool.path, "oneof", &what))
        }
        (Some(_), None) => Ok(()),
    }
}

/// Checks the name and the schemas of a function.
fn check_function(function: &Object<'_>) -> Result<(), ApiError> {
    if !is_name(function.str("name").unwrap_or_default()) {
        let what = format!(
            "[FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. \
             Must be a-z, A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes \
             (-), with a maximum length of {MAX_NAME}."
        );
        return Err(invalid_proto(&function.at("name"), &what));
    }
    for (key, other) in [("parameters", "parametersJsonSchema"), ("response", "responseJsonSchema")]
    {
        let Some(schema) = function.object(key) else { continue };
        if function.has(other) {
            let (key, other) = (snake_case(key), snake_case(other));
            let what = format!("only one of {key} and {other} can be set.");
            return Err(invalid_at(&function.at(&other), &what));
        }
        check_schema(&schema)?;
    }
    Ok(())
}

/// Returns `true` if Gemini accepts the name of a function.
fn is_name(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_start)
        && name.len() <= MAX_NAME
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c))
}

/// Checks the choice of a function. `is_used` is `true` if the request has functions to choose from, or combines
/// functions with Gemini's own tools.
fn check_choice(config: &Object<'_>, is_used: bool, route: &Route) -> Result<(), ApiError> {
    let Some(choice) = config.object("functionCallingConfig") else { return Ok(()) };
    check_platform(&choice, "function_calling_config", route)?;
    // Vertex AI accepts a choice without functions.
    if !is_used && route.platform == Platform::GoogleAi {
        return Err(invalid("Function calling config is set without function_declarations."));
    }
    let names = choice.get("allowedFunctionNames").and_then(Value::as_array);
    match names.is_some_and(|names| !names.is_empty()) && choice.str("mode") != Some("ANY") {
        true => Err(invalid_at(
            &choice.at("allowedFunctionNames"),
            "allowed_function_names can only be set if the mode is ANY.",
        )),
        false => Ok(()),
    }
}
