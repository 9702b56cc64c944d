//! The rules for a request for embeddings.

use serde_json::Value;

use super::ApiError;
use super::chat::check_model;
use super::wording::{Object, Wording, invalid_type};

pub(in super::super) fn check_embeddings(body: &Value, is_lenient: bool) -> Result<(), ApiError> {
    let body = Object::new(Wording { is_lenient }, "", body)?;
    body.fits("embeddings")?;
    let model = check_model(&body)?;
    if body.get("dimensions").is_some() && model == "text-embedding-ada-002" {
        return Err(ApiError::invalid_request(
            "This model does not support specifying dimensions.",
        ));
    }
    match body.required("input")? {
        Value::String(text) => check_text(text),
        Value::Array(list) => {
            body.check("input", "nonempty list up to 2048")?;
            list.iter().try_for_each(check_input)
        }
        other => Err(invalid_type("input", "a string or an array", other)),
    }
}

fn check_input(input: &Value) -> Result<(), ApiError> {
    match input {
        Value::String(text) => check_text(text),
        Value::Number(token) if token.is_u64() => Ok(()),
        Value::Array(tokens) if !tokens.is_empty() && tokens.iter().all(Value::is_u64) => Ok(()),
        _ => Err(ApiError::invalid_request(
            "'$.input' is invalid. Please check the API reference: \
             https://platform.openai.com/docs/api-reference.",
        )),
    }
}

fn check_text(text: &str) -> Result<(), ApiError> {
    match text {
        "" => Err(ApiError::invalid_request("Invalid 'input': input cannot be an empty string.")
            .param("input")),
        _ => Ok(()),
    }
}
