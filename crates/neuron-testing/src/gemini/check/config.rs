//! Gemini's rules for `generationConfig`.

use serde_json::Value;

use super::ApiError;
use super::schema::check_schema;
use super::wording::{Object, invalid, invalid_at};
use crate::gemini::route::{Method, Route};

/// Maximum value of `maxOutputTokens` of a request that is not streamed, for models since the fourth generation.
///
/// Source: <https://ai.google.dev/gemini-api/docs/generate-content/long-decode>.
const MAX_UNSTREAMED: u64 = 32_768;

/// Checks the rules of `generationConfig` that concern several fields, the model or the method.
pub(super) fn check_config(body: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    let Some(config) = body.object("generationConfig") else { return Ok(()) };
    check_output(&config, body, route)?;
    let limit = config.get("maxOutputTokens").and_then(Value::as_u64).unwrap_or_default();
    let is_unstreamed = route.method == Method::GenerateContent;
    if limit > MAX_UNSTREAMED
        && is_unstreamed
        && route.generation() >= 4
        && !body.has("continuationToken")
    {
        let what = format!(
            "max_output_tokens must be at most {MAX_UNSTREAMED} for a request that is not streamed \
             and has no continuation_token."
        );
        return Err(invalid_at(&config.at("maxOutputTokens"), &what));
    }
    match config.object("thinkingConfig") {
        Some(thinking) => check_thinking(&thinking, route),
        None => Ok(()),
    }
}

/// Checks that thinking has either a budget or a level, and that the model supports it.
fn check_thinking(thinking: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    let has_level = thinking.has("thinkingLevel");
    if has_level && thinking.has("thinkingBudget") {
        return Err(invalid("You can only set only one of thinking budget and thinking level."));
    }
    if has_level && !route.has_signatures() {
        return Err(invalid("Thinking level is not supported for this model."));
    }
    let is_off = thinking.get("thinkingBudget").and_then(Value::as_i64) == Some(0);
    match is_off && route.model.starts_with("gemini-2.5-pro") {
        true => Err(invalid("Budget 0 is invalid. This model only works in thinking mode.")),
        false => Ok(()),
    }
}

/// Checks the fields that describe the format of the output.
fn check_output(config: &Object<'_>, body: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    let mime_type = config.str("responseMimeType").filter(|kind| !kind.is_empty());
    let is_json = mime_type == Some("application/json");
    if let Some(other) = mime_type {
        if !["text/plain", "application/json", "text/x.enum"].contains(&other) {
            let what = "allowed mimetypes are `text/plain`, `application/json`, and `text/x.enum`.";
            return Err(invalid_at(&config.at("responseMimeType"), what));
        }
        let has_functions =
            body.objects("tools").iter().any(|tool| tool.has("functionDeclarations"));
        if is_json && has_functions && !route.has_signatures() {
            return Err(invalid(
                "Function calling with a response mime type: 'application/json' is unsupported",
            ));
        }
    }
    let (schema, json_schema) = (config.object("responseSchema"), config.has("responseJsonSchema"));
    if schema.is_some() && json_schema {
        let what = "only one of response_schema and response_json_schema can be set.";
        return Err(invalid_at(&config.at("responseJsonSchema"), what));
    }
    if (schema.is_some() || json_schema) && !is_json && mime_type != Some("text/x.enum") {
        let what = "a response schema needs the response_mime_type `application/json`.";
        return Err(invalid_at(&config.at("responseMimeType"), what));
    }
    schema.map_or(Ok(()), |schema| check_schema(&schema))
}
