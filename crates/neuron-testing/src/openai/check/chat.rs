//! OpenAI's rules for the parameters of a request to Chat Completions. Messages and tools have their own files.

use serde_json::Value;

use super::ApiError;
use super::format::check_format;
use super::messages::check_messages;
use super::models::check_chat_parameters;
use super::tools::{Shape, check_tools};
use super::wording::{Object, Wording, refused};

/// Checks the body of a request to Chat Completions. If `is_lenient` is `true`, unknown parameters are accepted, and
/// parameters may be unsuitable for the model.
pub(in super::super) fn check_chat(body: &Value, is_lenient: bool) -> Result<(), ApiError> {
    let body = Object::new(Wording { is_lenient }, "", body)?;
    body.fits("chat")?;
    let model = check_model(&body)?;
    if body.has("max_tokens") && body.has("max_completion_tokens") {
        let text =
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.";
        return Err(ApiError::invalid_request(text).code("invalid_parameter_combination"));
    }
    if body.get("n").is_some_and(|n| *n != 1) {
        return Err(refused("n", "this server plays one choice, so 'n' must be 1"));
    }
    check_stream_options(&body)?;
    check_chat_parameters(&body, model)?;
    check_format(&body, "messages", body.object("response_format"), "response_format")?;
    check_tools(&body, Shape::Nested)?;
    check_messages(&body, model)
}

/// Returns the model of a request, or a 400 if the request names none.
pub(super) fn check_model<'a>(body: &Object<'a>) -> Result<&'a str, ApiError> {
    let model = body.str("model").filter(|model| !model.is_empty());
    model.ok_or_else(|| ApiError::invalid_request("you must provide a model parameter"))
}

/// Checks that `stream_options` is set only together with `stream`.
pub(super) fn check_stream_options(body: &Object<'_>) -> Result<(), ApiError> {
    let text = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
    match body.has("stream_options") && !body.is_true("stream") {
        true => Err(refused("stream_options", text)),
        false => Ok(()),
    }
}
