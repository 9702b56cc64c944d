//! The rules for a request to Chat Completions, but for its messages and tools.

use serde_json::Value;

use super::ApiError;
use super::messages::check_messages;
use super::models::check_chat_parameters;
use super::object::{Object, check_length, check_name, invalid_type, missing};
use super::schema::check_strict_schema;
use super::tools::{Shape, check_tools};

const KNOWN: &[&str] = &[
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];

pub(in super::super) const EFFORTS: &[&str] =
    &["none", "minimal", "low", "medium", "high", "xhigh", "max"];

pub(in super::super) fn check_chat(body: &Value, lenient: bool) -> Result<(), ApiError> {
    let body = Object::body(body, lenient)?;
    let Some(model) = body.optional_text("model")?.filter(|model| !model.is_empty()) else {
        return Err(ApiError::invalid_request("you must provide a model parameter"));
    };
    body.only(&[KNOWN])?;
    check_values(&body)?;
    check_stream(&body)?;
    check_stop(&body)?;
    check_chat_parameters(&body, model)?;
    check_format(&body)?;
    check_tools(&body, Shape::Nested)?;
    check_messages(&body, model)
}

fn check_values(body: &Object<'_>) -> Result<(), ApiError> {
    body.number("temperature", 0.0, 2.0)?;
    body.number("top_p", 0.0, 1.0)?;
    body.number("presence_penalty", -2.0, 2.0)?;
    body.number("frequency_penalty", -2.0, 2.0)?;
    body.integer("seed", i64::MIN)?;
    body.boolean("store")?;
    body.boolean("logprobs")?;
    body.one_of("reasoning_effort", EFFORTS)?;
    body.one_of("verbosity", &["low", "medium", "high"])?;
    body.one_of("service_tier", &["auto", "default", "flex", "scale", "priority", "fast"])?;
    body.object("metadata")?;
    let old = body.integer("max_tokens", 1)?;
    let new = body.integer("max_completion_tokens", 1)?;
    if old.is_some() && new.is_some() {
        return Err(ApiError::invalid_request(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        )
        .code("invalid_parameter_combination"));
    }
    if body.integer("n", 1)?.is_some_and(|n| n > 1) {
        return Err(
            ApiError::invalid_request("this server plays one choice, so 'n' must be 1").param("n")
        );
    }
    Ok(())
}

fn check_stream(body: &Object<'_>) -> Result<(), ApiError> {
    let stream = body.boolean("stream")?;
    let Some(options) = body.object("stream_options")? else {
        return Ok(());
    };
    if stream != Some(true) {
        return Err(ApiError::invalid_request(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        )
        .param("stream_options"));
    }
    options.only(&[&["include_usage", "include_obfuscation"]])?;
    options.boolean("include_usage")?;
    options.boolean("include_obfuscation").map(drop)
}

fn check_stop(body: &Object<'_>) -> Result<(), ApiError> {
    match body.get("stop") {
        None | Some(Value::String(_)) => Ok(()),
        Some(Value::Array(list)) => {
            check_length("stop", list, 4)?;
            match list.iter().enumerate().find(|(_, text)| !text.is_string()) {
                Some((index, value)) => {
                    Err(invalid_type(&format!("stop[{index}]"), "a string", value))
                }
                None => Ok(()),
            }
        }
        Some(value) => Err(invalid_type("stop", "a string or array of strings", value)),
    }
}

fn check_format(body: &Object<'_>) -> Result<(), ApiError> {
    let Some(format) = body.object("response_format")? else {
        return Ok(());
    };
    format.required("type")?;
    match format.one_of("type", &["json_object", "json_schema", "text"])? {
        Some("json_schema") => {
            format.only(&[&["type", "json_schema"]])?;
            let Some(schema) = format.object("json_schema")? else {
                return Err(missing("response_format.json_schema"));
            };
            schema.only(&[&["name", "schema", "strict", "description"]])?;
            check_named_schema(&schema, "response_format")
        }
        Some("json_object") => {
            format.only(&[&["type"]])?;
            check_json_is_named(body, "messages", "response_format")
        }
        _ => format.only(&[&["type"]]),
    }
}

/// Checks the schema that an answer has to fit, its name included.
pub(super) fn check_named_schema(format: &Object<'_>, param: &str) -> Result<(), ApiError> {
    check_name(&format.path_of("name"), format.text("name")?, 64)?;
    let strict = format.boolean("strict")?;
    match format.object("schema")? {
        Some(_) if strict == Some(true) => {
            let name = format.text("name")?;
            let subject = format!("response_format '{name}'");
            check_strict_schema(format.required("schema")?, &subject).map_err(|message| {
                ApiError::invalid_request(message).param(param).code("invalid_json_schema")
            })
        }
        _ => Ok(()),
    }
}

/// The vendor's guard against answers that never end.
pub(super) fn check_json_is_named(
    body: &Object<'_>,
    key: &str,
    format: &str,
) -> Result<(), ApiError> {
    let text = body.get(key).map(Value::to_string).unwrap_or_default().to_lowercase();
    if text.contains("json") {
        return Ok(());
    }
    Err(ApiError::invalid_request(format!(
        "'{key}' must contain the word 'json' in some form, to use '{format}' of type \
         'json_object'."
    ))
    .param(key))
}
