//! Gemini's rules for the contents of a request (its messages) and for their parts.

use serde_json::Value;

use super::wording::{Object, Wording, invalid, invalid_at, invalid_value, snake_case};
use super::{ApiError, check_platform};
use crate::base64;
use crate::gemini::route::{Platform, Route};
use crate::gemini::signature::is_encoded;
use crate::shape::{Problem, Wording as _, words};

/// A content of a request, with its parts.
pub(super) struct Content<'a> {
    /// `true` for the role `model`, and `false` for `user`.
    pub(super) is_model: bool,
    pub(super) parts: Vec<Object<'a>>,
}

impl<'a> Content<'a> {
    /// Returns the objects in the field `key` of the parts, such as `functionCall`.
    pub(super) fn having(&self, key: &str) -> Vec<Object<'a>> {
        self.parts.iter().filter_map(|part| part.object(key)).collect()
    }
}

/// Checks the system instruction and each content of a request, and returns the contents.
pub(super) fn check_contents<'a>(
    body: &Object<'a>,
    route: &Route,
) -> Result<Vec<Content<'a>>, ApiError> {
    if let Some(system) = body.object("systemInstruction") {
        check_parts(&system, route)?;
    }
    let contents = body.objects("contents");
    if contents.is_empty() {
        return Err(body.error("contents", Problem::Missing));
    }
    let read = |content: &Object<'a>| {
        let is_model = match content.str("role") {
            Some("user") => false,
            Some("model") => true,
            // Google AI accepts a content without a role. Vertex AI and these rules do not.
            _ => return Err(invalid("Please use a valid role: user, model.")),
        };
        Ok(Content { is_model, parts: check_parts(content, route)? })
    };
    let contents = contents.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    match contents.first() {
        Some(first) if first.is_model && first.having("functionCall").is_empty() => {
            Err(invalid("Please ensure that multiturn requests start with a user turn."))
        }
        _ => Ok(contents),
    }
}

/// Checks that the conversation does not end with the model.
///
/// Source: <https://github.com/crewAIInc/crewAI/pull/6973>, with the error text of
/// <https://github.com/songquanpeng/one-api/issues/836>.
pub(super) fn check_end(contents: &[Content<'_>]) -> Result<(), ApiError> {
    let text =
        "Please ensure that multiturn requests ends with a user role or a function response.";
    match contents.last().is_some_and(|last| last.is_model) {
        true => Err(invalid(text)),
        false => Ok(()),
    }
}

/// Checks the parts of a content, and returns them.
fn check_parts<'a>(content: &Object<'a>, route: &Route) -> Result<Vec<Object<'a>>, ApiError> {
    let parts = content.objects("parts");
    if parts.is_empty() {
        return Err(invalid_at(&content.at("parts"), "contents.parts must not be empty."));
    }
    parts.iter().try_for_each(|part| check_part(part, route))?;
    Ok(parts)
}

/// Checks that a part has exactly one kind of data, and checks this data.
fn check_part(part: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    check_platform(part, "part", route)?;
    let mut data = words(Wording.shape("part_data"), "unchecked").filter(|key| part.has(key));
    match (data.next(), data.next()) {
        (None, _) => {
            let what = "required oneof field 'data' must have one initialized field";
            return Err(invalid_at(&part.at("data"), what));
        }
        (Some(_), Some(second)) => {
            let second = snake_case(second);
            let what = format!("oneof field 'data' is already set. Cannot set '{second}'");
            return Err(invalid_value(&part.path, "oneof", &what));
        }
        (Some(_), None) => {}
    }
    if let Some(signature) = part.str("thoughtSignature").filter(|text| !is_encoded(text)) {
        return Err(not_base64(&part.at("thoughtSignature"), signature));
    }
    if let Some(file) = part.object("fileData") {
        file.required("fileUri")?;
        // Source: <https://github.com/langchain-ai/langchainjs/pull/8947>.
        if route.platform == Platform::Vertex && file.str("mimeType").is_none_or(str::is_empty) {
            return Err(invalid(
                "Unable to submit request because it has an empty mimeType parameter in fileData. \
                 Add a value to the parameter and try again.",
            ));
        }
    }
    check_blob(part)?;
    if let Some(call) = part.object("functionCall") {
        check_function(&call, route)?;
    }
    match part.object("functionResponse") {
        Some(response) => check_response(&response, route),
        None => Ok(()),
    }
}

/// Checks the base64 and the type of the object `inlineData` of a part.
fn check_blob(part: &Object<'_>) -> Result<(), ApiError> {
    let Some(blob) = part.object("inlineData") else { return Ok(()) };
    blob.required("mimeType")?;
    blob.required("data")?;
    match blob.str("data").filter(|data| base64::decode_lenient(data).is_none()) {
        Some(data) => Err(not_base64(&blob.at("data"), data)),
        None => Ok(()),
    }
}

fn not_base64(path: &str, text: &str) -> ApiError {
    let text = Value::from(text);
    invalid_value(path, "TYPE_BYTES", &format!("Base64 decoding failed for {text}"))
}

/// Checks the name and the id of a function call or a function response.
fn check_function(function: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    if function.str("name").is_none_or(str::is_empty) {
        return Err(invalid_at(&function.at("name"), "Name cannot be empty."));
    }
    // Models before the third generation have no call ids.
    match function.has("id") && !route.has_signatures() {
        true => Err(function.error("id", Problem::Unknown)),
        false => Ok(()),
    }
}

/// Types of media in the parts of a function response.
const RESPONSE_TYPES: [&str; 5] =
    ["image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"];

/// Checks a function response, its media, and the references in its value.
fn check_response(response: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    check_function(response, route)?;
    response.required("response")?;
    let parts = response.objects("parts");
    if !parts.is_empty() && !route.has_signatures() {
        return Err(response.error("parts", Problem::Unknown));
    }
    let mut names = Vec::new();
    for part in &parts {
        check_blob(part)?;
        let Some(blob) = part.object("inlineData") else { continue };
        names.extend(blob.str("displayName"));
        if let Some(other) = blob.str("mimeType").filter(|kind| !RESPONSE_TYPES.contains(kind)) {
            return Err(invalid(format!("Unsupported MIME type: {other}")));
        }
    }
    match response.get("response").and_then(|value| unknown_reference(value, &names)) {
        Some(reference) => Err(invalid_at(
            &response.at("response"),
            &format!("the reference {reference} does not name a part of the function response"),
        )),
        None => Ok(()),
    }
}

/// Returns the first `$ref` in a value that names none of `names`. Gemini reads a `$ref` in a function response as a
/// reference to one of its parts.
fn unknown_reference<'a>(value: &'a Value, names: &[&str]) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| unknown_reference(item, names)),
        Value::Object(fields) => fields.iter().find_map(|(key, value)| match key.as_str() {
            "$ref" => (!value.as_str().is_some_and(|name| names.contains(&name))).then_some(value),
            _ => unknown_reference(value, names),
        }),
        _ => None,
    }
}
