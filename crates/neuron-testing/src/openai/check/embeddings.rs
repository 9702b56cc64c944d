//! OpenAI's rules for a request for embeddings.

use serde_json::Value;

use super::ApiError;
use super::chat::check_model;
use super::wording::{Object, Wording, invalid_type, refused};

/// Checks the body of a request for embeddings. With `is_lenient`, unknown parameters are accepted.
pub(in super::super) fn check_embeddings(body: &Value, is_lenient: bool) -> Result<(), ApiError> {
    let body = Object::new(Wording { is_lenient }, "", body)?;
    body.fits("embeddings")?;
    let model = check_model(&body)?;
    if body.has("dimensions") && model == "text-embedding-ada-002" {
        let text = "This model does not support specifying dimensions.";
        return Err(ApiError::invalid_request(text));
    }
    match body.required("input")? {
        Value::Array(list) => {
            body.check("input", "nonempty list up to 2048")?;
            list.iter().try_for_each(check_input)
        }
        text @ Value::String(_) => check_input(text),
        other => Err(invalid_type("input", "a string or an array", other)),
    }
}

/// Checks one input, which is a text that is not empty, a token, or a list of tokens.
fn check_input(input: &Value) -> Result<(), ApiError> {
    let is_good = match input {
        Value::String(text) if text.is_empty() => {
            return Err(refused("input", "Invalid 'input': input cannot be an empty string."));
        }
        Value::Array(tokens) => !tokens.is_empty() && tokens.iter().all(Value::is_u64),
        input => input.is_string() || input.is_u64(),
    };
    let text = "'$.input' is invalid. Please check the API reference: \
                https://platform.openai.com/docs/api-reference.";
    if is_good { Ok(()) } else { Err(ApiError::invalid_request(text)) }
}
