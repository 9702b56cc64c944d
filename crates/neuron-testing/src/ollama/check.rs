//! The rules for a request's body. Ollama decodes a body into typed structures of Go: most errors are
//! those of Go's JSON decoder, and unknown fields are ignored.

use std::sync::LazyLock;

use serde_json::Value;

use super::ApiError;
use crate::base64;
use crate::shape::{self, Null, Problem, Wording as _, words};

/// Checks the body of a request to `/api/chat` as Ollama does.
///
/// # Errors
///
/// A 400 for the first rule that is broken; a 500 for an option of a wrong type, as Ollama has it.
///
/// # Example
///
/// ```
/// use neuron_testing::ollama::check_chat_request;
/// use serde_json::json;
///
/// let mut body = json!({
///     "model": "llama3.2",
///     "messages": [{"role": "user", "content": "hi"}],
/// });
/// assert!(check_chat_request(&body).is_ok());
///
/// body["messages"][0]["content"] = json!(["hi"]);
/// let error = check_chat_request(&body).unwrap_err();
/// assert_eq!(
///     error.message,
///     "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type \
///      string"
/// );
/// ```
pub fn check_chat_request(body: &Value) -> Result<(), ApiError> {
    shape::check(Wording, "ChatRequest", body, &"api.ChatRequest".into())?;
    let mut messages = body["messages"].as_array().into_iter().flatten();
    messages.try_for_each(check_message)?;
    check_think(&body["think"])?;
    check_keep_alive(&body["keep_alive"])?;
    check_model(body)?;
    check_format(&body["format"])?;
    match body["top_logprobs"].as_i64() {
        Some(count) if !(0..=20).contains(&count) => {
            Err(ApiError::invalid_request("top_logprobs must be between 0 and 20"))
        }
        _ => check_options(&body["options"]),
    }
}

/// Checks the body of a request to `/api/embed` as Ollama does.
///
/// # Errors
///
/// A 400 for the first rule that is broken; a 500 for an option of a wrong type, as Ollama has it.
pub fn check_embed_request(body: &Value) -> Result<(), ApiError> {
    shape::check(Wording, "EmbedRequest", body, &"api.EmbedRequest".into())?;
    check_keep_alive(&body["keep_alive"])?;
    check_model(body)?;
    match &body["input"] {
        Value::Null | Value::String(_) => {}
        Value::Array(texts) if texts.iter().all(Value::is_string) => {}
        _ => return Err(ApiError::invalid_request("invalid input type")),
    }
    check_options(&body["options"])
}

fn check_model(body: &Value) -> Result<(), ApiError> {
    match body["model"].as_str() {
        None | Some("") => Err(ApiError::invalid_request("model is required")),
        Some(_) => Ok(()),
    }
}

fn check_message(message: &Value) -> Result<(), ApiError> {
    let role = message["role"].as_str().unwrap_or_default().to_lowercase();
    if !["system", "user", "assistant", "tool"].contains(&role.as_str()) {
        return Err(ApiError::invalid_request(format!(
            "invalid role: \"{role}\" (must be \"system\", \"user\", \"assistant\", or \"tool\")"
        )));
    }
    let images = message["images"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match images.filter_map(base64::first_error).next() {
        Some(at) => {
            let text = format!("illegal base64 data at input byte {at}");
            Err(ApiError::invalid_request(text))
        }
        None => Ok(()),
    }
}

fn check_think(think: &Value) -> Result<(), ApiError> {
    match think {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::String(level) if ["high", "medium", "low", "max"].contains(&level.as_str()) => {
            Ok(())
        }
        Value::String(level) => Err(ApiError::invalid_request(format!(
            "invalid think value: \"{level}\" (must be \"high\", \"medium\", \"low\", \"max\", \
             true, or false)"
        ))),
        _ => Err(ApiError::invalid_request(
            "think must be a boolean or string (\"high\", \"medium\", \"low\", \"max\", true, or \
             false)",
        )),
    }
}

fn check_keep_alive(keep_alive: &Value) -> Result<(), ApiError> {
    match keep_alive {
        Value::Null | Value::Number(_) => Ok(()),
        Value::String(text) => match duration_error(text) {
            Some(what) => {
                Err(ApiError::invalid_request(format!("time: {what} duration \"{text}\"")))
            }
            None => Ok(()),
        },
        other => {
            Err(ApiError::invalid_request(format!("unsupported type: '{}'", go_kind_of(other))))
        }
    }
}

/// Returns Go's error for a text that is no duration. Durations are numbers with units, or a zero.
fn duration_error(text: &str) -> Option<&'static str> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return Some("invalid");
    }
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        if after.len() == rest.len() {
            return Some("invalid");
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, later) = after.split_at(end);
        match unit {
            "" => return Some("missing unit in"),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = later,
            _ => return Some("unknown unit in"),
        }
    }
    None
}

fn check_format(format: &Value) -> Result<(), ApiError> {
    match format {
        Value::Null | Value::Object(_) => Ok(()),
        Value::String(text) if text.is_empty() || text == "json" => Ok(()),
        _ => Err(ApiError::invalid_request(
            "invalid format: expected \"json\" or a valid JSON Schema object",
        )),
    }
}

/// Checks the options of a known type. Ollama ignores unknown options.
fn check_options(options: &Value) -> Result<(), ApiError> {
    let types = Wording.shape("options");
    for (key, value) in options.as_object().into_iter().flatten() {
        let is_listed = |kind: &&str| words(types, kind).any(|option| option == key);
        let kind = ["integer", "float32", "array"].into_iter().find(is_listed);
        let fits = match kind {
            Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Some("float32") => value.is_number(),
            Some(_) => value.is_array(),
            None => true,
        };
        if !fits {
            let kind = kind.unwrap_or_default();
            return Err(ApiError::new(500, format!("option \"{key}\" must be of type {kind}")));
        }
    }
    Ok(())
}

/// Ollama's shapes and the texts of Go's JSON decoder.
#[derive(Debug, Clone, Copy)]
struct Wording;

impl shape::Wording for Wording {
    type Error = ApiError;

    const NULL: Null = Null::Fits;

    fn shapes(self) -> &'static Value {
        static SHAPES: LazyLock<Value> =
            LazyLock::new(|| shape::parse(include_str!("shapes.json")));
        &SHAPES
    }

    fn is_lenient(self) -> bool {
        true
    }

    /// Go's errors do not say which item of a list they are about.
    fn item(self, path: &str, _index: usize) -> String {
        path.to_owned()
    }

    fn error(self, path: &str, problem: Problem<'_>) -> ApiError {
        let Problem::Type { expected, found } = problem else {
            return ApiError::invalid_request(format!("{path}: {problem:?}"));
        };
        let kind = match expected {
            "text" => "string",
            "boolean" => "bool",
            "object" => "map[string]interface {}",
            "list of text" => "[]api.ImageData",
            "list of api.Tool" => "api.Tools",
            shape => &shape.replace("list of ", "[]"),
        };
        let target = match path.contains('.') {
            true => format!("struct field {path}"),
            false => "value".to_owned(),
        };
        ApiError::invalid_request(format!(
            "json: cannot unmarshal {} into Go {target} of type {kind}",
            go_kind_of(found)
        ))
    }
}

fn go_kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
