//! OpenAI's rules for the parameters of a request to the Responses API. Items and tools have their own files.

use serde_json::Value;

use super::ApiError;
use super::chat::check_stream_options;
use super::format::check_format;
use super::items::check_items;
use super::models::check_sampling;
use super::tools::{Shape, check_tools};
use super::wording::{Object, Wording, refused};

/// Parameters whose names differ between the two APIs. Each pair has the name in Chat Completions and then the name in
/// Responses.
const RENAMED: [(&str, &str); 5] = [
    ("messages", "input"),
    ("response_format", "text.format"),
    ("max_completion_tokens", "max_output_tokens"),
    ("max_tokens", "max_output_tokens"),
    ("reasoning_effort", "reasoning.effort"),
];

/// Checks the body of a request to the Responses API. If `is_lenient` is `true`, unknown parameters are accepted, and
/// parameters may be unsuitable for the model.
pub(in super::super) fn check_responses(body: &Value, is_lenient: bool) -> Result<(), ApiError> {
    let body = Object::new(Wording { is_lenient }, "", body)?;
    if let Some((old, new)) = RENAMED.iter().find(|(old, _)| body.fields.contains_key(*old)) {
        let text = format!(
            "Unsupported parameter: '{old}'. In the Responses API, this parameter has moved to \
             '{new}'. Try again with the new parameter."
        );
        return Err(refused(old, text).code("unsupported_parameter"));
    }
    body.fits("responses")?;
    check_stream_options(&body)?;
    let reasoning = body.object("reasoning");
    let effort = reasoning.and_then(|reasoning| reasoning.str("effort"));
    check_sampling(&body, body.text("model")?, effort)?;
    let format = body.object("text").and_then(|text| text.object("format"));
    check_format(&body, "input", format, "text.format.schema")?;
    check_tools(&body, Shape::Flat)?;
    check_items(&body)
}
