//! The rules for a request to the Responses API, but for its items and tools.

use serde_json::Value;

use super::ApiError;
use super::chat::{EFFORTS, check_json_is_named, check_named_schema};
use super::items::check_items;
use super::models::check_sampling;
use super::object::{Object, invalid_type, invalid_value, missing};
use super::tools::{Shape, check_tools};

const KNOWN: &[&str] = &[
    "access_programs",
    "background",
    "background_options",
    "context_management",
    "conversation",
    "image",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "moderation",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

const INCLUDABLE: &[&str] = &[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
];

pub(in super::super) fn check_responses(body: &Value, lenient: bool) -> Result<(), ApiError> {
    let body = Object::body(body, lenient)?;
    let model = body.text("model")?;
    check_renamed(&body)?;
    body.only(&[KNOWN])?;
    check_values(&body)?;
    let effort = check_reasoning(&body)?;
    check_sampling(&body, model, effort)?;
    check_format(&body)?;
    check_tools(&body, Shape::Flat)?;
    let continues =
        ["previous_response_id", "conversation", "prompt"].iter().any(|key| body.has(key));
    match body.get("input") {
        None if continues => Ok(()),
        None => Err(missing("input")),
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(_)) => check_items(&body, continues),
        Some(other) => Err(invalid_type("input", "one of a string or array of input items", other)),
    }
}

/// Parameters that have another name here than in Chat Completions.
fn check_renamed(body: &Object<'_>) -> Result<(), ApiError> {
    let renamed = [
        ("messages", "input"),
        ("response_format", "text.format"),
        ("max_completion_tokens", "max_output_tokens"),
        ("max_tokens", "max_output_tokens"),
        ("reasoning_effort", "reasoning.effort"),
    ];
    match renamed.iter().find(|(old, _)| body.has(old)) {
        Some((old, new)) => Err(ApiError::invalid_request(format!(
            "Unsupported parameter: '{old}'. In the Responses API, this parameter has moved to \
             '{new}'. Try again with the new parameter."
        ))
        .param(*old)
        .code("unsupported_parameter")),
        None => Ok(()),
    }
}

fn check_values(body: &Object<'_>) -> Result<(), ApiError> {
    body.number("temperature", 0.0, 2.0)?;
    body.number("top_p", 0.0, 1.0)?;
    body.integer("max_output_tokens", 16)?;
    body.integer("max_tool_calls", 1)?;
    body.boolean("store")?;
    body.boolean("background")?;
    body.optional_text("instructions")?;
    body.optional_text("previous_response_id")?;
    body.object("metadata")?;
    body.one_of("truncation", &["auto", "disabled"])?;
    body.one_of(
        "service_tier",
        &["auto", "default", "flex", "scale", "priority", "fast", "ultrafast"],
    )?;
    for name in body.list("include")?.unwrap_or_default() {
        let name = name.as_str().unwrap_or_default();
        if !INCLUDABLE.contains(&name) {
            return Err(invalid_value("include", name, INCLUDABLE));
        }
    }
    let stream = body.boolean("stream")?;
    match body.object("stream_options")? {
        Some(_) if stream != Some(true) => Err(ApiError::invalid_request(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        )
        .param("stream_options")),
        Some(options) => {
            options.only(&[&["include_obfuscation"]])?;
            options.boolean("include_obfuscation").map(drop)
        }
        None => Ok(()),
    }
}

fn check_reasoning<'a>(body: &Object<'a>) -> Result<Option<&'a str>, ApiError> {
    let Some(reasoning) = body.object("reasoning")? else {
        return Ok(None);
    };
    reasoning.only(&[&["effort", "summary", "generate_summary", "mode", "context"]])?;
    reasoning.one_of("summary", &["auto", "concise", "detailed"])?;
    reasoning.one_of("context", &["auto", "current_turn", "all_turns"])?;
    reasoning.one_of("effort", EFFORTS)
}

fn check_format(body: &Object<'_>) -> Result<(), ApiError> {
    let Some(text) = body.object("text")? else {
        return Ok(());
    };
    text.only(&[&["format", "verbosity"]])?;
    text.one_of("verbosity", &["low", "medium", "high"])?;
    let Some(format) = text.object("format")? else {
        return Ok(());
    };
    format.required("type")?;
    match format.one_of("type", &["json_object", "json_schema", "text"])? {
        Some("json_schema") => {
            // Before what else is wrong: this is what a format in the other shape is told.
            format.text("name")?;
            format.only(&[&["type", "name", "schema", "strict", "description"]])?;
            format.required("schema")?;
            check_named_schema(&format, "text.format.schema")
        }
        Some("json_object") => {
            format.only(&[&["type"]])?;
            check_json_is_named(body, "input", "text.format")
        }
        _ => format.only(&[&["type"]]),
    }
}
