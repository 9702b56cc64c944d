//! Gemini's rules for thought signatures in the current turn. The current turn is everything after the last content of
//! the user that has more than function responses.
//!
//! Source: <https://ai.google.dev/gemini-api/docs/thought-signatures>.

use serde_json::Value;

use super::ApiError;
use super::contents::Content;
use super::wording::{Object, invalid};
use crate::gemini::route::Route;
use crate::gemini::signature::is_valid;

/// Checks that the first function call of each content of the current turn has a signature, and that every signature
/// of the current turn belongs to its part.
pub(super) fn check_signatures(contents: &[Content<'_>], route: &Route) -> Result<(), ApiError> {
    if !route.has_signatures() {
        return Ok(());
    }
    let is_prompt = |content: &Content<'_>| {
        !content.is_model && content.parts.iter().any(|part| !part.has("functionResponse"))
    };
    let start = contents.iter().rposition(is_prompt).unwrap_or_default();
    for (index, content) in contents.iter().enumerate().skip(start) {
        if !content.is_model {
            continue;
        }
        content.parts.iter().try_for_each(|part| check_signature(part, route))?;
        let mut calls = content.parts.iter().filter(|part| part.has("functionCall"));
        let unsigned =
            calls.next().filter(|call| route.needs_signatures() && signature(call).is_none());
        if let Some(call) = unsigned.and_then(|part| part.object("functionCall")) {
            return Err(missing(call.str("name").unwrap_or_default(), index + 1));
        }
    }
    Ok(())
}

/// Returns the signature of a part, or `None` if it is missing or empty.
fn signature<'a>(part: &Object<'a>) -> Option<&'a str> {
    part.str("thoughtSignature").filter(|text| !text.is_empty())
}

/// Checks that the signature of a part is a signature of this part. A part without a signature passes.
fn check_signature(part: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    let Some(text) = signature(part) else { return Ok(()) };
    match is_valid(text, &Value::Object(part.fields.clone()), route) {
        true => Ok(()),
        false => Err(invalid("Corrupted thought signature.")),
    }
}

/// Returns the error for a function call without a signature. `position` is the number of its content, counted from 1.
fn missing(name: &str, position: usize) -> ApiError {
    invalid(format!(
        "Function call is missing a thought_signature in functionCall parts. This is required for \
         tools to work correctly, and missing thought_signature may lead to degraded model \
         performance. Additional data, function call `default_api:{name}` , position {position}. \
         Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
    ))
}
