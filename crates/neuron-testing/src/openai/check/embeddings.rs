//! The rules for a request for embeddings.

use serde_json::Value;

use super::ApiError;
use super::object::{Object, check_length, empty_array, invalid_type};

pub(in super::super) fn check_embeddings(body: &Value, lenient: bool) -> Result<(), ApiError> {
    let body = Object::body(body, lenient)?;
    let Some(model) = body.optional_text("model")?.filter(|model| !model.is_empty()) else {
        return Err(ApiError::invalid_request("you must provide a model parameter"));
    };
    body.only(&[&["input", "model", "dimensions", "encoding_format", "user"]])?;
    body.one_of("encoding_format", &["float", "base64"])?;
    let dimensions = body.integer("dimensions", 1)?;
    if dimensions.is_some() && model == "text-embedding-ada-002" {
        return Err(ApiError::invalid_request(
            "This model does not support specifying dimensions.",
        ));
    }
    match body.required("input")? {
        Value::String(text) => check_text(text),
        Value::Array(list) if list.is_empty() => Err(empty_array("input")),
        Value::Array(list) => {
            check_length("input", list, 2048)?;
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
        _ => Err(unusable()),
    }
}

fn check_text(text: &str) -> Result<(), ApiError> {
    match text {
        "" => Err(ApiError::invalid_request("Invalid 'input': input cannot be an empty string.")
            .param("input")),
        _ => Ok(()),
    }
}

fn unusable() -> ApiError {
    ApiError::invalid_request(
        "'$.input' is invalid. Please check the API reference: \
         https://platform.openai.com/docs/api-reference.",
    )
}
