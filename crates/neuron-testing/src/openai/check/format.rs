//! OpenAI's rules for the response format, in Chat Completions and in Responses.

use super::ApiError;
use super::schema::check_strict;
use super::wording::{Object, refused};

/// Checks the response format of a request. A request without a format passes.
///
/// `input` is the name of the field that contains the conversation. If the schema is invalid, the error names the
/// parameter `param`.
pub(super) fn check_format(
    body: &Object<'_>,
    input: &str,
    format: Option<Object<'_>>,
    param: &str,
) -> Result<(), ApiError> {
    let Some(format) = format else { return Ok(()) };
    // OpenAI requires the word "json" in the conversation. Without such an instruction, a model in JSON mode may emit
    // whitespace until the token limit.
    if format.str("type") == Some("json_object") {
        let text = body.get(input).map(ToString::to_string).unwrap_or_default();
        if !text.to_lowercase().contains("json") {
            let path = &format.path;
            let text = format!(
                "'{input}' must contain the word 'json' in some form, to use '{path}' of type \
                 'json_object'."
            );
            return Err(refused(input, text));
        }
    }
    // Chat Completions nests the schema under `json_schema`. The Responses API has the schema in the format itself.
    let named = format.object("json_schema").unwrap_or(format);
    match named.get("schema") {
        Some(schema) if named.is_true("strict") => {
            let name = named.str("name").unwrap_or_default();
            check_strict(schema, &format!("response_format '{name}'"), &[])
                .map_err(|text| refused(param, text).code("invalid_json_schema"))
        }
        _ => Ok(()),
    }
}
